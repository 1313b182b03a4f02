package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A state with 10,000 open streams is read; one with more is refused.
func TestStateHoldsTenThousandOpenStreams(t *testing.T) {
	for _, row := range []struct {
		streams int
		want    string
	}{{10_000, ""}, {10_001, "more than 10000 open streams"}} {
		name := filepath.Join(t.TempDir(), "state.json")
		if err := saveState(name, savedState{Path: "a", Open: make([]savedOpen, row.streams)}, (*os.File).Sync); err != nil {
			t.Fatal(err)
		}
		s, err := loadState(name)
		switch {
		case row.want == "" && (err != nil || len(s.Open) != row.streams):
			t.Errorf("%d streams: %d read, %v", row.streams, len(s.Open), err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want) || len(s.Open) != 0):
			t.Errorf("%d streams: %d read, %v", row.streams, len(s.Open), err)
		}
	}
}
