package audit

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// rotatedTwice writes a log of three files.
func (s *site) rotatedTwice() []Rotated {
	s.t.Helper()
	s.c.MaxSizeMB = 1
	l := s.open()
	var files []Rotated
	for i := 0; len(files) < 2; i++ {
		fill(s.t, l, i, 1)
		var err error
		if files, err = ListRotated(s.c.Path); err != nil {
			s.t.Fatal(err)
		}
	}
	mustClose(s.t, l)
	return files
}

// verified verifies the log, and returns the numbers of problems and warnings.
func (s *site) verified(o VerifyOptions, files ...Rotated) string {
	s.t.Helper()
	if len(files) == 0 {
		var err error
		if files, err = Files(s.c.Path); err != nil {
			s.t.Fatal(err)
		}
	}
	v, err := Verify(context.Background(), files, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%d problems, %d warnings", v.Found, v.Warned)
}

// The head of a live audit file that is cut away at a signed checkpoint is a problem with a key,
// and a warning without, and the gateway logs it at its start and records it.
func TestTheHeadOfALiveFileIsCutAtACheckpoint(t *testing.T) {
	for _, event := range []string{"stop", "start"} {
		t.Run(event, func(t *testing.T) {
			s := newSite(t)
			s.run(0, 3)
			s.run(3, 3)
			lines := s.lines()
			at := 0
			for i, line := range lines {
				if i > 0 && at == 0 && strings.Contains(line, `"event":"`+event+`"`) {
					at = i
				}
			}
			s.write(lines[at:])
			if got := s.verified(s.verify); got != "2 problems, 0 warnings" {
				t.Errorf("with the key: %s", got)
			}
			if got := s.verified(VerifyOptions{}); got != "0 problems, 2 warnings" {
				t.Errorf("without a key: %s", got)
			}
			s.run(6, 1)
			if !strings.Contains(s.logged.String(), beginsLate) || !strings.Contains(s.logged.String(), fmt.Sprintf("missing_lines=%d", at)) {
				t.Errorf("the gateway logs %q", s.logged.String())
			}
			if got := fmt.Sprint(s.brokenIn()); got != fmt.Sprintf("[begins_late/%d]", at) {
				t.Errorf("the gateway records %s", got)
			}
			s.run(7, 1)
			if s.logged.Len() > 0 {
				t.Errorf("logged again: %s", s.logged.String())
			}
			if got := s.verified(s.verify); got != "2 problems, 0 warnings" {
				t.Errorf("after another start: %s", got)
			}
		})
	}
}

// A log that is cut at a line event: broken in the middle of a file does not begin a file, also
// after the gateway has taken it without a saved head. A broken line that begins a file is no cut.
func TestALogThatIsCutAtABrokenLine(t *testing.T) {
	s := newSite(t)
	s.run(0, 3)
	remove(t, s.state)
	s.run(3, 3)
	lines := s.lines()
	at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"event":"broken"`) })
	if at < 1 {
		t.Fatal("no broken line")
	}
	s.write(lines[at:])
	remove(t, s.state)
	s.run(6, 1)
	if got := s.verified(s.verify); got != "1 problems, 2 warnings" {
		t.Errorf("with the key: %s", got)
	}

	s = newSite(t)
	s.rotatedTwice()
	if err := os.Truncate(s.c.Path, 0); err != nil {
		t.Fatal(err)
	}
	s.run(6, 1)
	if got := s.brokenIn(); len(got) != 1 || !strings.HasPrefix(got[0], string(causeEndsEarly)) || !strings.Contains(s.lines()[0], `"event":"broken"`) {
		t.Fatalf("the gateway records %s", got)
	}
	if got := s.verified(s.verify, Rotated{Path: s.c.Path}); got != "1 problems, 1 warnings" { // the rotated files are missing
		t.Errorf("the file alone: %s", got)
	}
	if got := s.verified(s.verify); got != "0 problems, 1 warnings" {
		t.Errorf("with the rotated files: %s", got)
	}
}

// Without a checkpoint key a file that does not begin as a file does is logged too.
func TestACutFileIsLoggedWithoutAKey(t *testing.T) {
	s := newSite(t)
	s.c.CheckpointKeyFile = ""
	s.run(0, 3)
	s.write(s.lines()[2:])
	s.run(3, 1)
	if !strings.Contains(s.logged.String(), beginsLate) {
		t.Errorf("the gateway logs %q", s.logged.String())
	}
}

// Files that rotation removed are no problem, also when the gateway starts or the checkpoint with
// the number of the oldest line is the last thing that it wrote.
func TestFilesThatRotationRemovedAreNoProblem(t *testing.T) {
	s := newSite(t)
	files := s.rotatedTwice()
	s.c.MaxBackups = 1
	l := s.open()
	l.SetReported(files[1].First)
	end := time.Now().Add(10 * time.Second)
	for removed := false; !removed; {
		_, err := os.Stat(files[0].Path)
		if removed = os.IsNotExist(err); !removed && time.Now().After(end) {
			t.Fatal("the oldest file is not removed")
		}
		runtime.Gosched()
	}
	if got := s.verified(s.verify); got != "0 problems, 0 warnings" {
		t.Errorf("while the gateway runs: %s", got)
	}
	mustClose(t, l)
	s.run(1, 1)
	if s.logged.Len() > 0 {
		t.Errorf("the gateway logs %s", s.logged.String())
	}
	v := checkChain(t, s.c.Path, s.verify)
	if v.First != files[1].First || v.Oldest != v.First || v.Warned != 0 {
		t.Errorf("the log begins at line %d, and states %d; want %d", v.First, v.Oldest, files[1].First)
	}
}

// A rotated file that somebody else removed is a problem with a key, also when all files that are
// left are named; files that were archived are verified without the current one.
func TestRotatedFilesThatSomebodyRemoved(t *testing.T) {
	s := newSite(t)
	files := s.rotatedTwice()
	current := Rotated{Path: s.c.Path}
	if got := s.verified(s.verify, files[1]); got != "0 problems, 0 warnings" {
		t.Errorf("a rotated file alone: %s", got)
	}
	if got := s.verified(s.verify, files...); got != "0 problems, 0 warnings" {
		t.Errorf("the rotated files: %s", got)
	}
	if got := s.verified(s.verify, files[0], files[1], current); got != "0 problems, 0 warnings" {
		t.Errorf("all files by their names: %s", got)
	}
	if got := s.verified(s.verify, files[1], current); got != "1 problems, 0 warnings" {
		t.Errorf("the files from the second on, with the key: %s", got)
	}
	if got := s.verified(VerifyOptions{}, files[1], current); got != "0 problems, 1 warnings" {
		t.Errorf("the files from the second on, without a key: %s", got)
	}
	remove(t, files[0].Path)
	if got := s.verified(s.verify); got != "1 problems, 0 warnings" {
		t.Errorf("with the key: %s", got)
	}
	if got := s.verified(VerifyOptions{}); got != "0 problems, 1 warnings" {
		t.Errorf("without a key: %s", got)
	}
	s.run(1, 1)
	if got := fmt.Sprint(s.brokenIn()); got != fmt.Sprintf("[begins_late/%d]", files[1].First-1) {
		t.Errorf("the gateway records %s", got)
	}
}

// A file that another program moved away before it told the gateway to reopen it is no problem.
func TestAFileThatLogrotateMovedIsNoProblem(t *testing.T) {
	s := newSite(t)
	l := s.open()
	fill(t, l, 0, 3)
	if err := os.Rename(s.c.Path, s.c.Path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	fill(t, l, 3, 1)
	mustClose(t, l)
	s.run(4, 1)
	if s.logged.Len() > 0 {
		t.Errorf("the gateway logs %s", s.logged.String())
	}
	if got := s.verified(s.verify); got != "0 problems, 0 warnings" {
		t.Error(got)
	}
}
