package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	decisionRecord = regexp.MustCompile(`(?m)^- \*\*([A-Z]+[1-9][0-9]*)\*\* `)
	decisionCited  = regexp.MustCompile(`\bdecisions?\s+(?:// )?([A-Z]+[1-9][0-9]*(?:(?:,|,? and)\s+(?:// )?[A-Z]+[1-9][0-9]*)*)`)
	decisionID     = regexp.MustCompile(`[A-Z]+[1-9][0-9]*`)
)

// Every decision that code or a page cites is a record of docs/internal/decisions.md, and
// every id occurs once there.
func TestCitedDecisionsAreRecorded(t *testing.T) {
	root := filepath.Join("..", "..")
	page := filepath.Join(root, "docs", "internal", "decisions.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, m := range decisionRecord.FindAllStringSubmatch(string(text), -1) {
		if ids[m[1]] {
			t.Errorf("%s has two records %s", page, m[1])
		}
		ids[m[1]] = true
	}
	if bullets := strings.Count(string(text), "\n- "); bullets == 0 || bullets != len(ids) {
		t.Errorf("%s has %d bullets and %d records; a record is \"- **REQ9** decision and reason\"", page, bullets, len(ids))
	}
	cited := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "dist") {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); d.IsDir() || ext != ".go" && ext != ".md" && ext != ".yaml" || d.Name() == "decisions_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range decisionCited.FindAllStringSubmatch(string(text), -1) {
			for _, id := range decisionID.FindAllString(m[1], -1) {
				cited++
				if !ids[id] {
					t.Errorf("%s cites decision %s, which docs/internal/decisions.md does not have", path, id)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d records, cited %d times", len(ids), cited)
}
