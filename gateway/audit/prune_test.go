package audit

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files with unreported lines are kept while their number is within the backlog; with one more
// the oldest file is deleted, with a warning.
func TestUnreportedLinesAreKeptUpToTheBacklog(t *testing.T) {
	for _, row := range []struct {
		name           string
		reported, last uint64
		deleted        bool
		warning        string
	}{
		{"as many as the backlog holds", 5, 25, false, ""},
		{"one more", 5, 26, true, "unreported_lines=5"},
		{"nothing reported, as many as the backlog holds", 0, 20, false, ""},
		{"nothing reported, one more", 0, 21, true, "unreported_lines=10"},
		{"all of the file reported", 10, 1000, true, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var logs bytes.Buffer
			l := &Log{opts: Options{MaxBacklog: 20, Logger: slog.New(slog.NewTextHandler(&logs, nil))}}
			l.progressKnown.Store(true)
			l.reported.Store(row.reported)
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			var rotated []string
			for _, first := range []int{1, 11} {
				name := strings.TrimSuffix(path, ".jsonl") + fmt.Sprintf("-%020d.jsonl", first)
				if err := os.WriteFile(name, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				rotated = append(rotated, name)
			}
			announced := uint64(0)
			l.prune(path, 1, row.last, func(oldest uint64) { announced = oldest })
			if announced != 0 != row.deleted || row.deleted && announced != 11 {
				t.Errorf("the oldest line afterwards is announced as %d", announced)
			}
			if _, err := os.Stat(rotated[0]); os.IsNotExist(err) != row.deleted {
				t.Errorf("the first file: %v, want deleted %v", err, row.deleted)
			}
			if _, err := os.Stat(rotated[1]); err != nil {
				t.Error(err)
			}
			if text := logs.String(); (text != "") != (row.warning != "") || !strings.Contains(text, row.warning) {
				t.Errorf("log %q, want %q", text, row.warning)
			}
		})
	}
}
