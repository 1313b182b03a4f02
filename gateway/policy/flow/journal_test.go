package flow

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	alice = Caller{Key: "10:alice"}
	bob   = Caller{Key: "212:https://iss/bob"}
	two   = NewNames("private", "untrusted")
)

func lines(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// reopened is what a process finds that starts while another one has the folder: the other one was killed,
// as far as it is concerned.
func reopened(t *testing.T, dir string, o Options) *Memory {
	t.Helper()
	o.StateDir = dir
	if o.Names == nil {
		o.Names = two
	}
	return open(t, o)
}

func TestLabelsLastOverARestart(t *testing.T) {
	dir, time := t.TempDir(), newClock()
	m := reopened(t, dir, Options{Now: time.now})
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("a memory without labels has files: %v, %v", entries, err)
	}
	session := Caller{Key: "the-secret-id", Session: true}
	long := Caller{Key: "10:" + strings.Repeat("x", 9000)}
	odd := Caller{Key: "10:\xff"}
	for _, c := range []Caller{alice, bob, session, long, odd} {
		set(t, m, c, two, "private")
	}
	time.advance(30e9)
	set(t, m, alice, two, "untrusted")
	info, err := os.Stat(filepath.Join(dir, fileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if text := strings.Join(lines(t, dir), "\n"); strings.Contains(text, session.Key) || !strings.Contains(text, "10:alice") {
		t.Error(text)
	}
	again := reopened(t, dir, Options{Now: time.now})
	for _, c := range []Caller{bob, session, long, odd} {
		has(t, again, c, two, "private")
	}
	has(t, again, alice, two, "private", "untrusted")
	time.advance(32e9) // a label that was set in the file may last two seconds longer
	has(t, again, alice, two, "untrusted")
	has(t, again, bob, two)
	last := reopened(t, dir, Options{Now: time.now, Window: 30e9})
	has(t, last, alice, two)
}

// A renewal is in the file after the next tick; one that is not may only make a label last longer.
func TestRenewalsAreWritten(t *testing.T) {
	dir, time := t.TempDir(), newClock()
	m := reopened(t, dir, Options{Now: time.now})
	set(t, m, alice, two, "private")
	for range 10 {
		time.advance(20e9)
		set(t, m, alice, two, "private")
		m.tick()
	}
	if n := len(lines(t, dir)); n > 12 {
		t.Errorf("%d lines", n)
	}
	time.advance(59e9)
	has(t, reopened(t, dir, Options{Now: time.now}), alice, two, "private")
	time.advance(3e9)
	has(t, reopened(t, dir, Options{Now: time.now}), alice, two)
	set(t, m, alice, two, "private")
	n := len(lines(t, dir))
	for range 100 {
		set(t, m, alice, two, "private")
	}
	if got := len(lines(t, dir)); got != n {
		t.Errorf("renewals within the slack wrote %d lines", got-n)
	}
}

func TestDamagedFiles(t *testing.T) {
	good := `{"at":%d,"caller":"10:alice","labels":["private"]}` + "\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"torn last line":      {good + `{"at":1,"caller":"10:al`, []string{"private"}},
		"torn without a line": {`{"at"`, nil},
		"garbage":             {"\x00\x01\n[]\n{}\n\n" + good, []string{"private"}},
		"long line":           {`{"at":1,"caller":"` + strings.Repeat("x", 3*maxLine) + "\"}\n" + good, []string{"private"}},
		"long torn line":      {good + strings.Repeat("x", 3*maxLine), []string{"private"}},
		"long caller":         {strings.Replace(good, "10:alice", "10:alice"+strings.Repeat("x", maxID), 1) + good, []string{"private"}},
		"unknown label":       {strings.Replace(good, "private", "gone", 1), nil},
		"no time":             {`{"caller":"10:alice","labels":["private"]}` + "\n", nil},
		"far future":          {strings.Replace(good, "%d", "9000000000000000", 1), []string{"private"}},
		"request without end": {`{"at":%d,"caller":"10:alice","clear":"x"}` + "\n" + good, []string{"private"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, time := t.TempDir(), newClock()
			text := strings.ReplaceAll(c.text, "%d", fmt.Sprint(time.now().UnixMilli()))
			if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			m := reopened(t, dir, Options{Now: time.now, Log: slog.New(slog.NewTextHandler(&log, nil))})
			has(t, m, alice, two, c.want...)
			if damaged := strings.Contains(name, "torn") || strings.Contains(name, "long") || name == "garbage" || name == "no time"; damaged != strings.Contains(log.String(), "damaged") {
				t.Errorf("the log has %q", log.String())
			}
			set(t, m, bob, two, "untrusted")
			again := reopened(t, dir, Options{Now: time.now})
			has(t, again, alice, two, c.want...)
			has(t, again, bob, two, "untrusted")
			time.advance(62e9)
			has(t, again, alice, two)
		})
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, fileName), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{StateDir: dir, Names: two, Window: time.Minute}); err == nil {
		t.Error("a folder was opened as the file")
	}
}

// A link in the place of the file is refused, and what it leads to stays as it is.
func TestTheFileIsALink(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, fileName)); err != nil {
		t.Fatal(err)
	}
	if m, err := Open(Options{StateDir: dir, Names: two, Window: time.Minute}); err == nil {
		_ = m.Close()
		t.Error("a link was followed")
	}
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o644 || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestTheFileIsBounded(t *testing.T) {
	dir, time := t.TempDir(), newClock()
	m := reopened(t, dir, Options{Now: time.now})
	long := strings.Repeat("x", maxID-20)
	for i := range 3 * minCompact / maxID {
		set(t, m, Caller{Key: fmt.Sprintf("10:%s%d", long, i)}, two, "private")
		if i == 1000 {
			time.advance(90e9)
		}
	}
	before, err := os.Stat(m.file.path)
	if err != nil || before.Size() < 2*minCompact {
		t.Fatal(before.Size(), err)
	}
	set(t, m, alice, two, "untrusted")
	time.advance(50e9)
	set(t, m, alice, two, "private")
	time.advance(15e9)
	m.file.mu.Lock()
	m.file.compacted = 0 // a tick may have come between
	m.file.mu.Unlock()
	m.tick()
	if after, err := os.Stat(m.file.path); err != nil || after.Size() > 200 || after.Mode().Perm() != 0o600 {
		t.Errorf("%d bytes, %v", after.Size(), err)
	}
	set(t, m, bob, two, "private")
	again := reopened(t, dir, Options{Now: time.now})
	has(t, again, alice, two, "private")
	has(t, again, bob, two, "private")
}

// Whoever removes the file of a running gateway, or its folder, removes no labels. The folder need not be
// there before the first label.
func TestTheFileIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	m := reopened(t, dir, Options{})
	set(t, m, alice, two, "private")
	if err := os.Remove(m.file.path); err != nil {
		t.Fatal(err)
	}
	set(t, m, bob, two, "private")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	m.tick()
	if err := os.Truncate(m.file.path, 3); err != nil {
		t.Fatal(err)
	}
	m.tick()
	again := reopened(t, dir, Options{})
	has(t, again, alice, two, "private")
	has(t, again, bob, two, "private")
}

// Two processes have one folder, and each writes the file anew while the other appends to it.
func TestTwoProcessesWithOneFile(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	all := []*Memory{reopened(t, dir, Options{}), reopened(t, dir, Options{})}
	for n, m := range all {
		wg.Go(func() {
			for i := range 200 {
				if err := m.Set(t.Context(), Caller{Key: fmt.Sprintf("10:%d-%d", n, i)}, two.Of("private"), two); err != nil {
					t.Error(err)
				}
				if i%20 == n {
					m.file.mu.Lock()
					m.file.compacted = -1 << 40 // as if it had become large
					m.file.mu.Unlock()
					m.record(t.Context(), entry{At: m.wall(m.millis()), Caller: "10:x", Labels: []string{"private"}})
					if err := m.withFile(t.Context(), true, m.compact); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, m := range all {
		m.tick()
	}
	for _, m := range append(all, reopened(t, dir, Options{})) {
		for n := range all {
			for i := range 200 {
				has(t, m, Caller{Key: fmt.Sprintf("10:%d-%d", n, i)}, two, "private")
			}
		}
	}
}

// killedEnv has the folder of the process that is killed.
const killedEnv = "SVC_TEST_LABELS"

// setAndWait is the process that is killed: it sets labels and says which, until it ends.
func setAndWait(dir string) {
	m, err := Open(Options{StateDir: dir, Names: two, Window: time.Minute})
	for i := 0; err == nil; i++ {
		if err = m.Set(context.Background(), Caller{Key: fmt.Sprintf("10:%d", i)}, two.Of("private"), two); err == nil {
			fmt.Println(i)
		}
	}
	fmt.Println(err)
}

func TestAKillLosesNoLabel(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killedEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := 0
		for r := bufio.NewScanner(out); r.Scan(); {
			var i int
			if _, err := fmt.Sscan(r.Text(), &i); err != nil || i != said {
				t.Fatalf("round %d: %q, not %d", round, r.Text(), said)
			}
			if said++; said == 300 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			t.Fatal(err)
		}
		m := reopened(t, dir, Options{})
		for i := range said {
			has(t, m, Caller{Key: fmt.Sprintf("10:%d", i)}, two, "private")
		}
	}
}
