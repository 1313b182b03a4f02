package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRobustnessPage: each test that docs/internal/robustness.md names exists.
func TestRobustnessPage(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "internal", "robustness.md"))
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			exists[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(page, -1)
	if len(named) < 50 {
		t.Errorf("the page names %d tests", len(named))
	}
	for _, m := range named {
		if !exists[string(m[1])] {
			t.Errorf("docs/internal/robustness.md names %s, which does not exist", m[1])
		}
	}
	script, err := os.ReadFile(filepath.Join(root, "test", "clients", "oauth.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`oauth\\.mjs` \"([^\"]+)\"").FindAllSubmatch(page, -1) {
		if !strings.Contains(string(script), string(m[1])) {
			t.Errorf("docs/internal/robustness.md names the check %q, which oauth.mjs does not have", m[1])
		}
	}
}
