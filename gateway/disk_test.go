package gateway

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStateDirIsWatched: a state_dir that cannot be written is logged once and counted, until it
// can be written again; one that does not exist yet can be made.
func TestStateDirIsWatched(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	var out bytes.Buffer
	d := newDiskProbe(state, filepath.Join(dir, "audit.jsonl"), slog.New(slog.NewTextHandler(&out, nil)))
	probe := func(want bool) {
		t.Helper()
		d.probe(t.Context())
		if d.writable() != want {
			t.Fatalf("writable is %v, want %v: %s", !want, want, &out)
		}
	}
	probe(true)
	if free := d.free(); free["audit"] <= 0 || free["state"] <= 0 {
		t.Errorf("free space: %v", free)
	}
	if err := os.WriteFile(state, nil, 0o600); err != nil { // not a directory, for root too
		t.Fatal(err)
	}
	probe(false)
	probe(false)
	if n := strings.Count(out.String(), "state_dir cannot be written"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &out)
	}
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	probe(true)
	if left, err := os.ReadDir(state); err != nil || len(left) != 0 || !strings.Contains(out.String(), "can be written again") {
		t.Errorf("left behind %v, %v; log:\n%s", left, err, &out)
	}
}
