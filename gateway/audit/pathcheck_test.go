package audit

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A file that another program moves, deletes, replaces or truncates no longer receives lines: the
// path is compared once a second.
func TestAFileThatIsNoLongerUnderItsPathTakesNoLines(t *testing.T) {
	for _, row := range []struct {
		name, want string
		do         func(path string) error
	}{
		{"deleted", "moved or deleted", os.Remove},
		{"moved", "moved or deleted", func(path string) error { return os.Rename(path, path+".1") }},
		{"replaced", "replaced", func(path string) error {
			if err := os.Rename(path, path+".1"); err != nil {
				return err
			}
			return os.WriteFile(path, nil, 0o600)
		}},
		{"cut", "was cut from", func(path string) error { return os.Truncate(path, 0) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged bytes.Buffer
				c := testConfig(t)
				l, err := Open(c, Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
				if err != nil {
					t.Fatal(err)
				}
				write(t, l, 1)
				<-time.After(pathCheckInterval + time.Millisecond)
				write(t, l, 2)
				if err := row.do(c.Path); err != nil {
					t.Fatal(err)
				}
				<-time.After(pathCheckInterval)
				synctest.Wait()
				if err := l.Ready(); err == nil || !strings.Contains(err.Error(), row.want) {
					t.Fatalf("ready: %v", err)
				}
				if err := l.Write(context.Background(), sample(3)); err == nil {
					t.Fatal("a line was written to a deleted file")
				}
				if got := logged.String(); !strings.Contains(got, row.want) || !strings.Contains(got, "lines_since_it_was_seen=1") {
					t.Errorf("logged: %s", got)
				}
				if err := l.Reopen(); err != nil {
					t.Fatal(err)
				}
				if err := l.Ready(); err != nil {
					t.Errorf("after the path was opened again: %v", err)
				}
				write(t, l, 4)
				mustClose(t, l)
				// continue, 4, stop: the chain continues after start, 1, 2.
				if v := checkChain(t, c.Path, VerifyOptions{}); v.First != 4 || v.Lines != 3 {
					t.Errorf("%d lines from %d on", v.Lines, v.First)
				}
			})
		})
	}
}

// With on_write_error: count the lines of the time without a file are counted, and reported by
// the first line of the new file.
func TestLinesOfALostFileAreCounted(t *testing.T) {
	c := testConfig(t)
	c.OnWriteError = onErrorCount
	l := mustOpen(t, c, Options{})
	if err := os.Remove(c.Path); err != nil {
		t.Fatal(err)
	}
	if err := l.submit(item{do: func() error { l.writer.checkPath(); return nil }}); err != nil {
		t.Fatal(err)
	}
	write(t, l, 1)
	write(t, l, 2)
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	if v := checkChain(t, c.Path, VerifyOptions{}); v.Lost != 2 || l.Lost() != 2 {
		t.Errorf("the log reports %d lost lines, the log %d, want 2", v.Lost, l.Lost())
	}
}

// A file that is moved back to its path is used again without a signal.
func TestAFileThatIsBackIsWrittenOn(t *testing.T) {
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	look := func() {
		t.Helper()
		if err := l.submit(item{do: func() error { l.writer.checkPath(); return nil }}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(c.Path, c.Path+".1"); err != nil {
		t.Fatal(err)
	}
	look()
	if err := l.Write(context.Background(), sample(1)); err == nil {
		t.Error("a line was written to a file that is elsewhere")
	}
	if err := os.Rename(c.Path+".1", c.Path); err != nil {
		t.Fatal(err)
	}
	look()
	write(t, l, 2)
	if err := l.Reopen(); err != nil { // changes nothing
		t.Fatal(err)
	}
	mustClose(t, l)
	if v := checkChain(t, c.Path, VerifyOptions{}); v.First != 1 || v.Lines != 3 {
		t.Errorf("%d lines from %d on", v.Lines, v.First)
	}
}

// A file that another program put at the path is not written to.
func TestReopenRefusesAnotherTrail(t *testing.T) {
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	write(t, l, 1)
	b, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, l, 2)
	if err := os.Rename(c.Path, c.Path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil || !strings.Contains(err.Error(), "ends at line 2 of a chain, and line 3 was written last") {
		t.Errorf("got %v", err)
	}
	if after, err := os.ReadFile(c.Path); err != nil || !bytes.Equal(after, b) {
		t.Errorf("the file was changed: %v", err)
	}
}

// A reload that writes the path of the audit file in another way changes nothing. Another name of
// the file is refused as such.
func TestAnotherNameOfTheAuditFile(t *testing.T) {
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	fill(t, l, 0, 1)
	dir := filepath.Dir(c.Path)
	t.Chdir(dir)
	for _, path := range []string{filepath.Base(c.Path), "./" + filepath.Base(c.Path), c.Path} {
		same := c
		same.Path = path
		if err := l.Reconfigure(same); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		fill(t, l, 1, 1)
	}
	for name, link := range map[string]func(name string) string{
		"a link to the file": func(name string) string { return name },
		"a linked directory": func(name string) string { return filepath.Join(name, filepath.Base(c.Path)) },
	} {
		target := dir
		other := filepath.Join(t.TempDir(), "other")
		if link("") == "" {
			target = c.Path
		}
		if err := os.Symlink(target, other); err != nil {
			t.Fatal(err)
		}
		moved := c
		moved.Path = link(other)
		if err := l.Reconfigure(moved); err == nil || !strings.Contains(err.Error(), "is the audit file that is open as") {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustClose(t, l)
	if v := checkChain(t, c.Path, VerifyOptions{}); v.Lines != 6 {
		t.Errorf("%d lines", v.Lines)
	}
}
