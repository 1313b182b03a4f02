package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// site is a gateway's audit file and its state directory, across restarts.
type site struct {
	t      *testing.T
	c      Config
	state  string
	logged bytes.Buffer
	verify VerifyOptions
}

func newSite(t *testing.T) *site {
	keyFile, public := signingKey(t)
	s := &site{t: t, c: testConfig(t), state: filepath.Join(t.TempDir(), "state"), verify: VerifyOptions{PublicKey: public}}
	s.c.CheckpointKeyFile = keyFile
	return s
}

func (s *site) open() *Log {
	s.t.Helper()
	s.logged.Reset()
	return mustOpen(s.t, s.c, Options{StateDir: s.state, Logger: slog.New(slog.NewTextHandler(&s.logged, nil))})
}

// run opens the log, writes lines, and closes it.
func (s *site) run(first, lines int) {
	s.t.Helper()
	l := s.open()
	fill(s.t, l, first, lines)
	mustClose(s.t, l)
}

func (s *site) lines() []string { return readLines(s.t, s.c.Path) }

func (s *site) write(lines []string) {
	s.t.Helper()
	if err := os.WriteFile(s.c.Path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// headFile returns the path of the saved head.
func (s *site) headFile() string {
	s.t.Helper()
	name, _, err := savedHeadName(s.state, s.c.Path)
	if err != nil {
		s.t.Fatal(err)
	}
	return name
}

// saved returns a function that restores the present content of a file.
func (s *site) saved(name string) func() {
	s.t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			s.t.Error(err)
		}
	}
}

// brokenIn returns the broken checkpoints of the current file, as cause/missing.
func (s *site) brokenIn() []string {
	s.t.Helper()
	var found []string
	for _, line := range s.lines() {
		var r Record
		if err := Decode([]byte(line), &r); err != nil {
			s.t.Fatal(err)
		}
		if r.Checkpoint != nil && r.Checkpoint.Event == eventBroken {
			found = append(found, fmt.Sprintf("%s/%d", r.Checkpoint.Cause, r.Checkpoint.Missing))
		}
	}
	return found
}

func remove(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
}

// At its start a gateway compares the file with its saved head. It starts whatever the result is,
// and records the result in the log.
func TestTheStartComparesTheFileWithTheHead(t *testing.T) {
	for _, row := range []struct {
		name  string
		lines int // of the previous run
		alter func(s *site)
		want  string // the broken checkpoint, or nothing
	}{
		{"as it was left", 5, func(*site) {}, ""},
		{"denies and checkpoints removed, a new chain", 9, func(s *site) {
			s.write(reforge(without(s.lines(), aCheckpoint, "#3"), 0))
		}, "altered/0"},
		{"as many lines, and others", 5, func(s *site) {
			s.write(reforge(replaced(s.t, s.lines(), 3, "read_file", "wipe_disk"), 3))
		}, "altered/0"},
		{"more lines after a rewritten end", 5, func(s *site) {
			l := s.lines()
			more := append(without(l[1:], aCheckpoint), without(l[1:], aCheckpoint)...)
			s.write(reforge(append(l[:1:1], more...), 1))
		}, "altered/0"},
		{"a line changed under its hash", 5, func(s *site) {
			s.write(replaced(s.t, s.lines()[:6], 3, "read_file", "wipe_disk"))
		}, "altered/0"},
		{"hashes removed", 5, func(s *site) {
			l := s.lines()
			for i := range l {
				l[i] = l[i][:len(l[i])-sealedTail] + "}"
			}
			s.write(l)
		}, "altered/0"},
		{"fewer lines, rewritten over a longer time than there can be", 5, func(s *site) {
			l := s.lines()[:4]
			s.write(reforge(replaced(s.t, l, 3, "2026-11-20T12", "2026-11-20T13"), 1))
		}, "altered/0"},
		{"the end cut off", 5, func(s *site) { s.write(s.lines()[:4]) }, "ends_early/3"},
		{"the end cut off up to a checkpoint", 5, func(s *site) { s.write(s.lines()[:1]) }, "ends_early/6"},
		{"the file deleted", 5, func(s *site) { remove(s.t, s.c.Path) }, "ends_early/7"},
		{"the state deleted", 5, func(s *site) { remove(s.t, s.state) }, "no_head/0"},
		{"the head damaged", 5, func(s *site) {
			if err := os.WriteFile(s.headFile(), []byte(`{"version":1,"seq":7}`), 0o600); err != nil {
				s.t.Fatal(err)
			}
		}, "no_head/0"},
		{"both deleted", 5, func(s *site) { remove(s.t, s.c.Path, s.state) }, ""},
		{"another key", 5, func(s *site) { s.c.CheckpointKeyFile, s.verify.PublicKey = signingKey(s.t) }, "no_head/0"},
		{"unsigned before", 5, func(s *site) {
			remove(s.t, s.state, s.c.Path)
			key := s.c.CheckpointKeyFile
			s.c.CheckpointKeyFile = ""
			s.run(0, 3)
			s.c.CheckpointKeyFile = key
		}, "no_head/0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newSite(t)
			s.run(0, row.lines)
			row.alter(s)
			s.run(10, 2)
			found := strings.Join(s.brokenIn(), " ")
			if found != row.want {
				t.Fatalf("noted %q, want %q\n%s", found, row.want, s.logged.String())
			}
			if isError := strings.Contains(s.logged.String(), "level=ERROR"); isError != strings.HasPrefix(row.want, "altered") {
				t.Errorf("logged %s", s.logged.String())
			}
			if warned := strings.Contains(s.logged.String(), "level=WARN"); warned != (row.want != "" && !strings.HasPrefix(row.want, "altered")) {
				t.Errorf("logged %s", s.logged.String())
			}
			v, err := verifyPath(context.Background(), s.c.Path, s.verify)
			if err != nil {
				t.Fatal(err)
			}
			switch cause, _, _ := strings.Cut(row.want, "/"); Cause(cause) {
			case causeAltered:
				if !strings.Contains(fmt.Sprint(v.Problems), "the lines before differed from the lines that it had written") {
					t.Errorf("verified: %+v", v)
				}
			case causeNoHead, causeEndsEarly:
				if v.Warned != 1 {
					t.Errorf("warnings: %+v", v.Warnings)
				}
			default:
				if !v.OK() || v.Warned != 0 {
					t.Errorf("verified: %+v", v)
				}
			}
			// It is recorded once.
			s.run(20, 1)
			if again := strings.Join(s.brokenIn(), " "); again != row.want || s.logged.Len() > 0 {
				t.Errorf("noted again: %q\n%s", again, s.logged.String())
			}
		})
	}
}

// A log whose end was removed verifies, with a warning. The lines that the gateway found are not
// proven by its next signature.
func TestLinesThatWereFoundAreNotProven(t *testing.T) {
	s := newSite(t)
	s.run(0, 5)
	s.write(s.lines()[:4])
	s.run(10, 2)
	v := checkChain(t, s.c.Path, s.verify)
	if v.Warned != 1 || !strings.Contains(v.Warnings[0].Message, "the last 3 lines") {
		t.Errorf("warnings: %+v", v.Warnings)
	}
	if len(v.Unproven) != 1 || v.Unproven[0].Range != (Range{2, 4}) {
		t.Errorf("unproven: %+v", v.Unproven)
	}
	if text := v.Unproven[0].Range.String(); text != "2 to 4" {
		t.Errorf("a range reads %s", text)
	}
}

// If no signature precedes the lines that were found, the proven range begins after them: a log
// that was forged from its first line is not proven from that line.
func TestWhatIsProvenBeginsBehindLinesThatWereFound(t *testing.T) {
	s := newSite(t)
	s.run(0, 5)
	s.write(reforge(without(s.lines(), aCheckpoint), 0))
	remove(t, s.headFile())
	s.run(10, 2)
	v := checkChain(t, s.c.Path, s.verify)
	if len(v.Unproven) != 1 || v.Unproven[0].Range != (Range{1, 5}) {
		t.Errorf("unproven: %+v", v.Unproven)
	}
	if want := (Range{6, uint64(len(s.lines()))}); v.Proven != want {
		t.Errorf("proven: %v, want %v", v.Proven, want)
	}
}

// A killed process leaves lines after its last checkpoint, and a saved head that is older than
// the file. Neither is a mismatch.
func TestAHeadMayLagBehindTheFile(t *testing.T) {
	s := newSite(t)
	s.run(0, 2)
	old := s.saved(s.headFile())
	s.run(2, 2)
	l := s.open()
	fill(t, l, 4, 3)
	killed := s.saved(s.c.Path) // as a kill would leave it
	mustClose(t, l)
	killed()
	old() // several checkpoints older than the file
	s.run(7, 1)
	if s.logged.Len() > 0 || len(s.brokenIn()) > 0 {
		t.Fatalf("noted %v\n%s", s.brokenIn(), s.logged.String())
	}
	v := checkChain(t, s.c.Path, s.verify)
	// start, 2, stop; start, 2, stop; start, 3; start, 1, stop
	if len(v.Unproven) != 1 || v.Unproven[0].Range != (Range{10, 12}) || v.Proven != (Range{1, 15}) {
		t.Errorf("proven %v, unproven %+v", v.Proven, v.Unproven)
	}

	// The same with another log of the same key, which has more checkpoints.
	theirs := newSite(t)
	theirs.c.CheckpointKeyFile = s.c.CheckpointKeyFile
	for i := range 5 {
		theirs.run(100+i, 2)
	}
	swapped := theirs.lines()
	s.write(swapped)
	s.run(8, 1)
	if got := fmt.Sprint(s.brokenIn()); got != "[altered/0]" {
		t.Errorf("another trail in its place: %s", got)
	}
}

// After a rotation the current file begins with a checkpoint, or does not exist. Both match the
// saved head.
func TestTheStartAfterARotation(t *testing.T) {
	s := newSite(t)
	s.c.MaxSizeMB = 1
	l := s.open()
	for i := 0; ; i++ {
		fill(t, l, i, 1)
		if files, err := ListRotated(s.c.Path); err != nil || len(files) > 0 {
			break
		}
	}
	mustClose(t, l)
	s.run(0, 1)
	if s.logged.Len() > 0 {
		t.Errorf("after a rotation: %s", s.logged.String())
	}
	files, err := ListRotated(s.c.Path)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	// The current file is missing, with the lines written to it.
	head := len(s.lines())
	remove(t, s.c.Path)
	s.run(0, 1)
	if got := fmt.Sprint(s.brokenIn()); got != fmt.Sprintf("[ends_early/%d]", head) {
		t.Errorf("without the current file: %s, want %d missing", got, head)
	}
	v := checkChain(t, s.c.Path, s.verify)
	if v.Files != 2 || v.Warned != 1 {
		t.Errorf("%+v", v)
	}
}

// When two gateways use a file and a key alternately, each with a state directory of its own,
// each detects the lines of the other.
func TestTwoGatewaysInTurn(t *testing.T) {
	s := newSite(t)
	first, second := s.state, filepath.Join(t.TempDir(), "second")
	s.run(0, 2)
	for i := range 4 {
		s.state = second
		if i%2 == 1 {
			s.state = first
		}
		s.run(10*i, 2)
	}
	if got := fmt.Sprint(s.brokenIn()); got != "[no_head/0]" { // the first start of the second gateway
		t.Errorf("noted %s", got)
	}
	checkChain(t, s.c.Path, s.verify)
}

// If the head cannot be saved, the gateway logs one warning and keeps writing.
func TestAHeadThatCannotBeKeptIsWarnedOf(t *testing.T) {
	s := newSite(t)
	if err := os.WriteFile(s.state, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := s.open()
	for i := range 3 {
		fill(t, l, i, 1)
		if err := l.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		l.background.saveHeads(l)
	}
	mustClose(t, l)
	if n := strings.Count(s.logged.String(), "cannot be saved"); n != 1 {
		t.Errorf("warned %d times: %s", n, s.logged.String())
	}
}

// longFile is a file with the given number of bytes without a checkpoint.
type longFile struct {
	size, read int64
	line       []byte
}

func (f *longFile) ReadAt(p []byte, off int64) (int, error) {
	f.read += int64(len(p))
	for n := 0; n < len(p); {
		n += copy(p[n:], f.line[(off+int64(n))%int64(len(f.line)):])
	}
	if off+int64(len(p)) > f.size {
		return 0, io.EOF
	}
	return len(p), nil
}

// At most maxReadBack bytes are read at the start, however long the file is.
func TestTheStartReadsABoundedPart(t *testing.T) {
	f := &longFile{size: 1 << 40, line: append(bytes.Repeat([]byte("x"), 4095), '\n')}
	e, err := readBack(f, f.size, &savedHead{Seq: 1})
	if err != nil || e.checkpoint != nil || f.read > maxReadBack {
		t.Errorf("%d bytes were read: %v, %v", f.read, e.checkpoint, err)
	}
	f = &longFile{size: 1 << 40, line: bytes.Repeat([]byte("x"), 4096)}
	if _, err := readBack(f, f.size, nil); err != nil || f.read > 4*backChunk {
		t.Errorf("%d bytes of one line were read, %v", f.read, err)
	}
}

// Lines are visited from the last to the first, wherever chunks begin.
func TestBackLines(t *testing.T) {
	var file []byte
	var want []string
	for i := range 3000 {
		line := strings.Repeat(string(rune('a'+i%26)), i%2000)
		file = append(append(file, line...), '\n')
		want = append(want, line)
	}
	at := len(want)
	if err := backLines(bytes.NewReader(file), int64(len(file)), func(offset int64, line []byte) bool {
		at--
		if string(line) != want[at] || string(file[offset:offset+int64(len(line))]) != want[at] {
			t.Fatalf("line %d at %d: %.20q", at, offset, line)
		}
		return true
	}); err != nil || at != 0 {
		t.Errorf("%d lines were not visited, %v", at, err)
	}
	if len(file) < 2*backChunk {
		t.Fatal("the file is too short to be read in chunks")
	}
}

// A saved head belongs to one file and one key.
func TestAHeadOfAnotherFileIsNotTaken(t *testing.T) {
	s := newSite(t)
	s.run(0, 1)
	signer, err := loadSigner(s.c.CheckpointKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := signer.loadHead(s.state, s.c.Path); err != nil || h == nil || h.Seq != 3 || h.Count != 2 || h.Last != 1 {
		t.Fatalf("%+v, %v", h, err)
	}
	other := filepath.Join(t.TempDir(), "other.jsonl")
	name, _, err := savedHeadName(s.state, other)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(s.headFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err := signer.loadHead(s.state, other); err == nil || h != nil {
		t.Errorf("%+v, %v", h, err)
	}
	for _, change := range [][2]string{{`"seq":3`, `"seq":2`}, {`"checkpoint":2`, `"checkpoint":1`}, {`"version":2`, `"version":1`}} {
		changed := bytes.Replace(b, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(changed, b) {
			t.Fatalf("no %s in %s", change[0], b)
		}
		if err := os.WriteFile(s.headFile(), changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if h, err := signer.loadHead(s.state, s.c.Path); err == nil || h != nil {
			t.Errorf("%s: %+v, %v", change[1], h, err)
		}
	}
}

// A saved head of another version of the format is reported as such, not as a wrong signature or
// a head that does not exist.
func TestASavedHeadOfAnotherVersionIsNamed(t *testing.T) {
	s := newSite(t)
	s.run(0, 1)
	b, err := os.ReadFile(s.headFile())
	if err != nil {
		t.Fatal(err)
	}
	// The version before was signed over a text without the number of the oldest line.
	b = bytes.Replace(b, fmt.Appendf(nil, `"version":%d`, savedHeadVersion), []byte(`"version":1`), 1)
	if err := os.WriteFile(s.headFile(), b, 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(1, 1)
	logged := s.logged.String()
	if strings.Count(logged, "has version 1, and this program reads version 2") != 2 ||
		strings.Contains(logged, "is not signed") || strings.Contains(logged, "has no saved head") {
		t.Errorf("the gateway logs %s", logged)
	}
}
