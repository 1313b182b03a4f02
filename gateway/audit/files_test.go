package audit

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// rotatedTrail writes n lines over several files and returns the path of the log.
func rotatedTrail(t *testing.T, n int) string {
	t.Helper()
	c := testConfig(t)
	c.MaxSizeMB, c.MaxBackups = 1, 0
	l := mustOpen(t, c, Options{})
	for i := range n {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	files, err := Files(c.Path)
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v: %v", files, err)
	}
	return c.Path
}

// A reader at the position that Before returns finds exactly the last lines, also those in
// rotated files.
func TestBeforeTheLastLines(t *testing.T) {
	path := rotatedTrail(t, 4000)
	last := seqsOf(t, NewReader(path, Position{}))
	total := len(last)
	for _, n := range []int{0, 1, 2, 10, 500, 1500, 2500, 3900, total - 1, total, total + 1, 10 * total} {
		from, err := Before(path, n)
		if err != nil {
			t.Fatal(err)
		}
		r := NewReader(path, from)
		got := seqsOf(t, r)
		want := last[max(0, total-n):]
		if !slices.Equal(got, want) {
			t.Errorf("before the last %d: %d lines, want %d", n, len(got), len(want))
		}
		if r.Missing() != 0 {
			t.Errorf("before the last %d: %d missing", n, r.Missing())
		}
	}
}

func seqsOf(t *testing.T, r *Reader) []uint64 {
	t.Helper()
	defer r.Close()
	var seqs []uint64
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return seqs
		}
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, line.Seq)
	}
}

func TestBeforeRefusesWhatIsNoTrail(t *testing.T) {
	dir := t.TempDir()
	if _, err := Before(filepath.Join(dir, "missing"), 3); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	other := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(other, []byte("not a trail\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Before(other, 3); !errors.Is(err, errNotTrail) {
		t.Errorf("another file: %v", err)
	}
}

// Scan passes on every line of every file in order, and counts the bytes that are no line: too
// long, malformed, unfinished.
func TestScanReadsWholeFiles(t *testing.T) {
	path := rotatedTrail(t, 4000)
	files, err := Files(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	long := make([]byte, 9*MaxLine)
	for i := range long {
		long[i] = 'x'
	}
	for _, part := range [][]byte{[]byte("rubbish\n\n"), long, []byte("\n{\"seq\":9")} {
		if _, err := f.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, file := range files {
		info, err := os.Stat(file.Path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	want := uint64(1)
	done, err := Scan(context.Background(), files, func(line []byte) error {
		if seq, _, _, _, ok := splitLine(line); !ok || seq != want {
			t.Fatalf("line %d: %.60q", want, line)
		}
		want++
		return nil
	})
	if err != nil || done.Skipped != 4 || done.Bytes != size {
		t.Errorf("%+v of %d bytes: %v", done, size, err)
	}
	if want < 4000 {
		t.Errorf("%d lines", want)
	}
	stop := errors.New("stop")
	if _, err := Scan(context.Background(), files, func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("visit's error: %v", err)
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Scan(canceled, files, func([]byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// A reader of a log that is being rotated reads all of it: a file that was rotated since it was
// listed is found under its new name.
func TestFilesThatAreRotatedWhileTheyAreRead(t *testing.T) {
	path := rotatedTrail(t, 4000)
	files, err := Files(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Verify(context.Background(), files, VerifyOptions{})
	if err != nil || !whole.OK() {
		t.Fatalf("%+v: %v", whole, err)
	}
	current := files[len(files)-1]
	if err := os.Rename(path, rotatedName(path, current.First)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"seq":99999,"ts":"x"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := Verify(context.Background(), files, VerifyOptions{})
	if err != nil || !v.OK() || v.Head != whole.Head {
		t.Errorf("%+v: %v, want %+v", v, err, whole)
	}
	lines := uint64(0)
	if _, err := Scan(context.Background(), files, func([]byte) error { lines++; return nil }); err != nil || lines != whole.Lines {
		t.Errorf("%d lines scanned, want %d: %v", lines, whole.Lines, err)
	}
	if err := os.Remove(files[0].Path); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(context.Background(), files, VerifyOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that was deleted meanwhile: %v", err)
	}
}

// A copy of a rotated file in place of the current one is no rotation.
func TestCopyOfARotatedFileIsFound(t *testing.T) {
	path := rotatedTrail(t, 4000)
	files, err := Files(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(files[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := verifyPath(context.Background(), path, VerifyOptions{}); err != nil || v.OK() {
		t.Errorf("%+v: %v", v, err)
	}
}
