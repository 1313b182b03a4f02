package audit

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// fill writes n lines of about 1 KiB.
func fill(t testing.TB, l *Log, from, n int) {
	t.Helper()
	for i := range n {
		r := sample(from + i)
		r.Session, r.TaskHandle = strings.Repeat("s", 250), strings.Repeat("t", 250)
		if err := l.Write(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// readAll reads to the end and returns the numbers.
func readAll(t testing.TB, r *Reader) []uint64 {
	t.Helper()
	var seqs []uint64
	for {
		l, err := r.Next()
		if err == io.EOF {
			return seqs
		}
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, l.Seq)
	}
}

func wantRun(t testing.TB, seqs []uint64, first, last uint64) {
	t.Helper()
	if uint64(len(seqs)) != last-first+1 || len(seqs) > 0 && (seqs[0] != first || seqs[len(seqs)-1] != last) {
		t.Fatalf("%d lines, want %d to %d", len(seqs), first, last)
	}
	for i, s := range seqs {
		if s != first+uint64(i) {
			t.Fatalf("line %d has number %d", i, s)
		}
	}
}

func TestRotationBySizeContinuesTheChain(t *testing.T) {
	c := testConfig(t)
	c.MaxSizeMB = 1
	l := mustOpen(t, c, Options{})
	fill(t, l, 0, 5000)
	mustClose(t, l)
	files, err := ListRotated(c.Path)
	if err != nil || len(files) < 3 {
		t.Fatalf("%d rotated files, %v", len(files), err)
	}
	for _, f := range files {
		if info, err := os.Stat(f.Path); err != nil || info.Size() > 1<<20+4096 {
			t.Errorf("%s has %d bytes", f.Path, info.Size())
		}
		lines := readLines(t, f.Path)
		var head, tail Record
		if Decode([]byte(lines[0]), &head) != nil || head.Seq != f.First || head.Kind != KindCheckpoint {
			t.Errorf("%s begins with %s", f.Path, lines[0])
		}
		if Decode([]byte(lines[len(lines)-1]), &tail) != nil || tail.Kind != KindCheckpoint || tail.Checkpoint.Event != eventRotate {
			t.Errorf("%s ends with %s", f.Path, lines[len(lines)-1])
		}
	}
	v := checkChain(t, c.Path, VerifyOptions{})
	if v.Files != len(files)+1 || v.First != 1 {
		t.Errorf("%+v", v)
	}
	wantRun(t, readAll(t, NewReader(c.Path, Position{})), 1, v.Head.Seq)
	// Without its oldest files the log still verifies, and the report has its first line.
	if err := os.Remove(files[0].Path); err != nil {
		t.Fatal(err)
	}
	if v := checkChain(t, c.Path, VerifyOptions{}); v.First != files[1].First {
		t.Errorf("begins at %d, want %d", v.First, files[1].First)
	}
}

func TestRestartWithAnEmptyFileGoesOnFromTheRotatedOne(t *testing.T) {
	c := testConfig(t)
	c.MaxSizeMB = 1
	l := mustOpen(t, c, Options{})
	fill(t, l, 0, 2000)
	mustClose(t, l)
	// The process was killed between the rename and the new file.
	end, err := recoverTail(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(c.Path, rotatedName(c.Path, end.first)); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, c, Options{})
	fill(t, l, 0, 1)
	mustClose(t, l)
	if v := checkChain(t, c.Path, VerifyOptions{}); v.Head.Seq != end.seq+4 { // continue, start, the line, stop
		t.Errorf("head %d, want %d", v.Head.Seq, end.seq+4)
	}
}

func TestReaderFollowsWhileTheLogRotates(t *testing.T) {
	c := testConfig(t)
	c.MaxSizeMB = 1
	l := mustOpen(t, c, Options{})
	r := NewReader(c.Path, Position{})
	defer r.Close()
	var seqs []uint64
	for i := range 60 {
		fill(t, l, i*100, 100)
		seqs = append(seqs, readAll(t, r)...)
		if i%7 == 0 { // as a restart of the reader
			pos := r.Position()
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			r = NewReader(c.Path, pos)
		}
	}
	mustClose(t, l)
	seqs = append(seqs, readAll(t, r)...)
	v := checkChain(t, c.Path, VerifyOptions{})
	wantRun(t, seqs, 1, v.Head.Seq)
	if r.Missing()+r.Skipped() != 0 {
		t.Errorf("missing %d, skipped %d", r.Missing(), r.Skipped())
	}
}

func TestReaderCountsWhatWasDeleted(t *testing.T) {
	c := testConfig(t)
	c.MaxSizeMB = 1
	l := mustOpen(t, c, Options{})
	r := NewReader(c.Path, Position{})
	defer r.Close()
	fill(t, l, 0, 10)
	first := readAll(t, r)
	pos := r.Position()
	fill(t, l, 10, 4000)
	mustClose(t, l)
	files, err := ListRotated(c.Path)
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files[:2] {
		if err := os.Remove(f.Path); err != nil {
			t.Fatal(err)
		}
	}
	again := NewReader(c.Path, pos)
	defer again.Close()
	rest := readAll(t, again)
	wantRun(t, rest, files[2].First, rest[len(rest)-1])
	if want := files[2].First - uint64(len(first)) - 1; again.Missing() != want {
		t.Errorf("%d missing, want %d", again.Missing(), want)
	}
}

func TestReaderSeesALineThatReplacesAnUnfinishedOne(t *testing.T) {
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	fill(t, l, 0, 3)
	mustClose(t, l)
	r := NewReader(c.Path, Position{})
	defer r.Close()
	got := readAll(t, r)
	appendTo(t, c.Path, `{"seq":6,"ts":"2026-11-20T12:00:00.000000Z","kind":"request","tool":"unfinished`)
	if more := readAll(t, r); len(more) != 0 {
		t.Fatalf("read %v of an unfinished line", more)
	}
	l = mustOpen(t, c, Options{})
	fill(t, l, 3, 1)
	mustClose(t, l)
	wantRun(t, append(got, readAll(t, r)...), 1, 8)
	if r.Skipped() != 0 {
		t.Errorf("%d lines skipped", r.Skipped())
	}
}

func TestReaderNoticesATrailThatBeganAnew(t *testing.T) {
	for _, more := range []int{1, 500} {
		t.Run(fmt.Sprintf("%d lines later", more), func(t *testing.T) {
			c := testConfig(t)
			l := mustOpen(t, c, Options{})
			fill(t, l, 0, 100)
			r := NewReader(c.Path, Position{})
			defer r.Close()
			readAll(t, r)
			mustClose(t, l)
			pos := r.Position()
			if err := os.Remove(c.Path); err != nil {
				t.Fatal(err)
			}
			l = mustOpen(t, c, Options{})
			fill(t, l, 0, more)
			mustClose(t, l)
			again := NewReader(c.Path, pos)
			defer again.Close()
			seqs := readAll(t, again)
			if len(seqs) == 0 || seqs[len(seqs)-1] != uint64(more)+2 {
				t.Errorf("read %d lines", len(seqs))
			}
		})
	}
}

func TestReaderPassesOverLinesThatAreNone(t *testing.T) {
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	fill(t, l, 0, 2)
	appendTo(t, c.Path, "not a line\n"+strings.Repeat("x", 3*readChunk)+"\n\n")
	fill(t, l, 2, 2)
	r := NewReader(c.Path, Position{})
	defer r.Close()
	wantRun(t, readAll(t, r), 1, 5)
	if r.Skipped() != 3 {
		t.Errorf("%d skipped, want 3", r.Skipped())
	}
	mustClose(t, l)
}

func TestReopenAfterAnotherProgramRenamedTheFile(t *testing.T) {
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	r := NewReader(c.Path, Position{})
	defer r.Close()
	fill(t, l, 0, 3)
	seqs := readAll(t, r)
	if err := os.Rename(c.Path, c.Path+".1"); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 3, 2)
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 5, 2)
	mustClose(t, l)
	seqs = append(seqs, readAll(t, r)...)
	wantRun(t, seqs, 1, 10)
	files, err := InOrder([]string{c.Path, c.Path + ".1"})
	if err != nil {
		t.Fatal(err)
	}
	v, err := Verify(context.Background(), files, VerifyOptions{})
	if err != nil || !v.OK() || v.Lines != 10 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestOldFilesGoOnceTheyAreReported(t *testing.T) {
	c := testConfig(t)
	c.MaxSizeMB, c.MaxBackups = 1, 1
	o := Options{MaxBacklog: 1000} // less than the size of a file
	count := func() int {
		files, err := ListRotated(c.Path)
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	// settle waits until the background goroutine has finished its work.
	settle := func(l *Log) { l.background.rotated(); mustClose(t, l) }

	l := mustOpen(t, c, o)
	fill(t, l, 0, 5000)
	settle(l)
	if n := count(); n < 4 {
		t.Fatalf("%d files: one was deleted before the first SetReported", n)
	}
	l = mustOpen(t, c, o)
	l.SetReported(0)
	for end := time.Now().Add(5 * time.Second); count() > 1 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := count(); n != 1 {
		t.Errorf("%d files kept past the backlog", n)
	}
	mustClose(t, l)

	o.MaxBacklog = 1_000_000
	l = mustOpen(t, c, o)
	fill(t, l, 5000, 4000)
	l.SetReported(1)
	fill(t, l, 9000, 2000)
	n := count()
	if n < 4 {
		t.Errorf("%d files: unreported lines were deleted", n)
	}
	v := checkChain(t, c.Path, VerifyOptions{})
	l.SetReported(v.Head.Seq)
	l.background.rotated()
	for end := time.Now().Add(5 * time.Second); count() > 1 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := count(); n != 1 {
		t.Errorf("%d reported files kept, want max_backups", n)
	}
}

func FuzzReader(f *testing.F) {
	var s chainWriter
	var b []byte
	for i := range 3 {
		b = s.appendLine(b, sample(i).appendBody(nil))
	}
	f.Add(b, int64(0), uint64(0))
	f.Add(b, int64(10), uint64(1))
	f.Add([]byte("{\"seq\":1,\n\n\x00"), int64(1), uint64(9))
	path := f.TempDir() + "/audit.jsonl" // of each fuzzing worker process
	f.Fuzz(func(t *testing.T, content []byte, offset int64, seq uint64) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		r := NewReader(path, Position{File: 1, Offset: max(offset, 0), Seq: seq})
		defer r.Close()
		var last uint64
		for range len(content) + 2 {
			l, err := r.Next()
			if err != nil {
				return
			}
			if l.Seq <= last || len(l.Bytes) > MaxLine {
				t.Fatalf("line %d after %d", l.Seq, last)
			}
			last = l.Seq
		}
		t.Fatal("more lines than bytes")
	})
}
