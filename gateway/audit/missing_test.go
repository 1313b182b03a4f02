package audit

import (
	"path/filepath"
	"strings"
	"testing"
)

// The error for a missing directory names the directory and the fix.
func TestOpenNamesTheMissingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	_, err := Open(Config{Path: filepath.Join(dir, "audit.jsonl")}, Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "the directory "+dir+" does not exist; create it") {
		t.Errorf("%v", err)
	}
}
