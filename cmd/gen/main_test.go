package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestUpToDate generates everything again and compares it with the committed
// files.
func TestUpToDate(t *testing.T) {
	dir := t.TempDir()
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "docs", "rest.md"))
	if err != nil {
		t.Fatal(err)
	}
	if old, err := os.ReadFile("../../docs/rest.md"); err != nil || !bytes.Equal(old, page) {
		t.Errorf("docs/rest.md is stale: run 'go generate ./...' (%v)", err)
	}
	for _, part := range []string{"completions", "man"} {
		want, got := files(t, filepath.Join(dir, part)), files(t, filepath.Join("../..", part))
		for name, data := range want {
			if old, ok := got[name]; !ok {
				t.Errorf("%s/%s is missing: run 'go generate ./...'", part, name)
			} else if !bytes.Equal(old, data) {
				t.Errorf("%s/%s is stale: run 'go generate ./...'", part, name)
			}
			delete(got, name)
		}
		for name := range got {
			if ext := filepath.Ext(name); ext != ".go" && ext != ".md" {
				t.Errorf("%s/%s belongs to no command: run 'go generate ./...'", part, name)
			}
		}
	}
}

// TestStable generates twice: the output must not depend on the date or on the
// order of a map.
func TestStable(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if err := run(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"completions", "man"} {
		a, b := files(t, filepath.Join(one, part)), files(t, filepath.Join(two, part))
		for name := range a {
			if !bytes.Equal(a[name], b[name]) {
				t.Errorf("%s/%s differs between two runs", part, name)
			}
		}
	}
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		all[path] = data
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
