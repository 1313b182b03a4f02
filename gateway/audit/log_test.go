package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// testConfig is a configuration for a file in a directory of the test.
func testConfig(t testing.TB) Config {
	t.Helper()
	var c Config
	c.SetDefaults()
	c.Path = filepath.Join(t.TempDir(), "audit.jsonl")
	c.Fsync = fsyncNever
	return c
}

// mustOpen opens a log that is closed with the test.
func mustOpen(t testing.TB, c Config, o Options) *Log {
	t.Helper()
	l, err := Open(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// sample is a record like those of a small tool call.
func sample(i int) *Record {
	return &Record{
		Time: time.Date(2026, 11, 20, 12, 0, 0, i*1000, time.UTC), RequestID: fmt.Sprintf("01934b5c-0000-7000-8000-%012d", i),
		Action: "allow", RuleID: "allow-read", RPC: RPCRequest, Method: "tools/call", Tool: "read_file",
		Upstream: "files", Principal: "ci", PrincipalKind: "key", KeyID: "ci", ClientIP: "127.0.0.1",
		Status: 200, Duration: 1234567 * time.Nanosecond, BytesIn: 267, BytesOut: 304, Dialect: "2025-06-18",
		Spans: []Span{{Stage: "policy_eval", Duration: 12 * time.Microsecond}, {Stage: "provider", Duration: time.Millisecond}},
	}
}

// readLines returns the lines of a file, each of which must be valid JSON.
func readLines(t testing.TB, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for i, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Fatalf("line %d is not JSON: %s", i+1, line)
		}
	}
	return lines
}

// checkChain verifies the log at path and returns the report.
func checkChain(t testing.TB, path string, o VerifyOptions) *Verification {
	t.Helper()
	v, err := verifyPath(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range v.Problems {
		t.Errorf("verify: %s", p)
	}
	return v
}

func TestLineHasReachedTheFileWhenWriteReturns(t *testing.T) {
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	for i := range 5 {
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
		lines := readLines(t, c.Path)
		if want := sample(i).RequestID; !strings.Contains(lines[len(lines)-1], want) {
			t.Fatalf("after write %d the last line is %s", i, lines[len(lines)-1])
		}
	}
}

func TestManyWritersShareTheChain(t *testing.T) {
	const writers, each = 16, 200
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := l.Write(context.Background(), sample(w*each+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, l)
	v := checkChain(t, c.Path, VerifyOptions{})
	if want := uint64(writers*each + 2); v.Lines != want {
		t.Errorf("%d lines, want %d", v.Lines, want)
	}
	seen := map[string]bool{}
	for _, line := range readLines(t, c.Path) {
		var r Record
		if err := Decode([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.RequestID != "" && seen[r.RequestID] {
			t.Errorf("%s stands twice", r.RequestID)
		}
		seen[r.RequestID] = true
	}
	if len(seen) != writers*each+1 {
		t.Errorf("%d ids, want %d", len(seen)-1, writers*each)
	}
}

func TestChainSurvivesRestart(t *testing.T) {
	c := testConfig(t)
	for i := range 3 {
		l := mustOpen(t, c, Options{})
		if err := l.Write(context.Background(), sample(i)); err != nil {
			t.Fatal(err)
		}
		mustClose(t, l)
	}
	if v := checkChain(t, c.Path, VerifyOptions{}); v.Head.Seq != 9 {
		t.Errorf("head %d, want 9", v.Head.Seq)
	}
}

func TestTornLastLineIsMovedAside(t *testing.T) {
	for _, row := range []struct{ name, torn string }{
		{"half a line", `{"seq":4,"ts":"2026-11-20T12`},
		{"a line without its line feed", `{"seq":4,"ts":"2026-11-20T12:00:00.000000Z","kind":"request"}`},
		{"zeros", strings.Repeat("\x00", 5000)},
		{"a broken line with a line feed", "{\"seq\":4,\"ts\":\"20\n"},
		{"two broken lines", "{\"seq\":4,\n{\"seq\":5,\n{"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := testConfig(t)
			l := mustOpen(t, c, Options{})
			if err := l.Write(context.Background(), sample(1)); err != nil {
				t.Fatal(err)
			}
			mustClose(t, l)
			appendTo(t, c.Path, row.torn)
			l = mustOpen(t, c, Options{})
			if err := l.Write(context.Background(), sample(2)); err != nil {
				t.Fatal(err)
			}
			mustClose(t, l)
			v := checkChain(t, c.Path, VerifyOptions{})
			if v.Head.Seq != 6 {
				t.Errorf("head %d, want 6", v.Head.Seq)
			}
			aside, err := os.ReadFile(c.Path + tornSuffix)
			if err != nil || string(aside) != row.torn+"\n" {
				t.Errorf("moved aside %q, %v", aside, err)
			}
			var r Record
			if err := Decode([]byte(readLines(t, c.Path)[3]), &r); err != nil || r.Checkpoint.Torn != int64(len(row.torn)) {
				t.Errorf("start line says %+v, %v", r.Checkpoint, err)
			}
		})
	}
}

func TestEveryCutOfTheLastLineRecovers(t *testing.T) {
	c := testConfig(t)
	l := mustOpen(t, c, Options{})
	if err := l.Write(context.Background(), sample(1)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	whole, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{}
	d.skips.Store(true)
	for cut := len(whole) - 1; cut >= 0; cut -= 1 + cut/200 {
		if err := os.WriteFile(c.Path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(c, Options{OpenFile: d.open})
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		mustClose(t, l)
		if v := checkChain(t, c.Path, VerifyOptions{}); t.Failed() || v.Lines == 0 {
			t.Fatalf("cut at %d", cut)
		}
		// Otherwise the next run would find this file.
		_ = os.Remove(c.Path + tornSuffix)
	}
}

func TestForeignFileIsRefused(t *testing.T) {
	for _, row := range []struct{ name, content string }{
		{"text", "hello\nworld\n"},
		{"another JSON", "{\"level\":\"info\"}\n"},
		{"text before lines", "hello\n{\"seq\":1,\"ts\":\"2026-11-20T12:00:00.000000Z\",\"kind\":\"request\"}\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := testConfig(t)
			if err := os.WriteFile(c.Path, []byte(row.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(c, Options{}); err == nil || !strings.Contains(err.Error(), "move it away") {
				t.Errorf("got %v", err)
			}
			if b, _ := os.ReadFile(c.Path); string(b) != row.content {
				t.Errorf("the file was changed to %q", b)
			}
		})
	}
}

func TestSecondWriterIsRefused(t *testing.T) {
	c := testConfig(t)
	mustOpen(t, c, Options{})
	if _, err := Open(c, Options{}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("got %v", err)
	}
}

func TestFileIsPrivate(t *testing.T) {
	c := testConfig(t)
	mustOpen(t, c, Options{})
	if info, err := os.Stat(c.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestWriteAfterCloseErrs(t *testing.T) {
	l := mustOpen(t, testConfig(t), Options{})
	mustClose(t, l)
	if err := l.Write(context.Background(), sample(1)); err != errClosed {
		t.Errorf("got %v", err)
	}
}

func appendTo(t testing.TB, path, s string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(s); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
