package session

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPreviousKeysAreReadLikeTheKey checks their order and the rules for their files.
func TestPreviousKeysAreReadLikeTheKey(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, fill byte, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		text := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, keySize))
		if err := os.WriteFile(path, []byte(text+"\n"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b, open := write("a", 1, 0o600), write("b", 2, 0o400), write("open", 3, 0o644)
	keys, err := LoadPrevious([]string{a, b})
	if err != nil || len(keys) != 2 || keys[0][0] != 1 || keys[1][0] != 2 {
		t.Errorf("%v, %v", keys, err)
	}
	for path, want := range map[string]string{open: "mode 0600", filepath.Join(dir, "none"): "no such file"} {
		if _, err := LoadPrevious([]string{a, path}); err == nil || !strings.Contains(err.Error(), "sessions.previous_key_files[1]") || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v", err)
		}
	}
}

// The default of state_dir is relative to the folder that the gateway is started in: when it
// cannot be made, as with audit: {}, the error names the whole path and what to set.
func TestStateDirectoryThatCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("audit.jsonl.state", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := LoadKey("", "audit.jsonl.state")
	for _, want := range []string{filepath.Join(dir, "audit.jsonl.state"), "state_dir", "audit.path"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
