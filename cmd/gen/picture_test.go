package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestPictureUpToDate draws the picture of svc tui again and compares it with
// the committed one.
func TestPictureUpToDate(t *testing.T) {
	dir := t.TempDir()
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, picture))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("../..", picture))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is stale (%v): run 'go generate ./...'", picture, err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil || !bytes.Contains(readme, []byte("("+picture+")")) {
		t.Errorf("README.md does not show %s (%v)", picture, err)
	}
}
