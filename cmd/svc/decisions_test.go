package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	decisionSection = regexp.MustCompile(`^## .* \(([A-Z]+)\)$`)
	decisionRecord  = regexp.MustCompile(`^- \*\*([A-Z]+)([1-9][0-9]*)\*\* \((\d{4}-\d\d-\d\d)\) \*\*.+\*\*`)
	decisionCited   = regexp.MustCompile(`\bdecisions? ([A-Z]+[1-9][0-9]*(?:(?:, | and )[A-Z]+[1-9][0-9]*)*)`)
	decisionID      = regexp.MustCompile(`[A-Z]+[1-9][0-9]*`)
)

// readDecisions returns the ids in docs/decisions.md. Every bullet must be a record
// with a date and an id of its section, and ids must be unique.
func readDecisions(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "decisions.md"))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	section := ""
	for i, line := range strings.Split(string(text), "\n") {
		if m := decisionSection.FindStringSubmatch(line); m != nil {
			section = m[1]
			continue
		}
		if strings.HasPrefix(line, "## ") {
			t.Errorf("docs/decisions.md:%d: a section ends with the prefix of its ids in parentheses: %s", i+1, line)
		}
		if !strings.HasPrefix(line, "- ") {
			continue
		}
		m := decisionRecord.FindStringSubmatch(line)
		if m == nil || m[1] != section {
			t.Errorf("docs/decisions.md:%d: a record is \"- **%s9** (2026-01-31) **topic**: decision, reason\": %.60s", i+1, section, line)
			continue
		}
		if _, err := time.Parse(time.DateOnly, m[3]); err != nil {
			t.Errorf("docs/decisions.md:%d: %v", i+1, err)
		}
		if ids[m[1]+m[2]] {
			t.Errorf("docs/decisions.md:%d: %s%s exists; take the next number of the section", i+1, m[1], m[2])
		}
		ids[m[1]+m[2]] = true
	}
	return ids
}

// Every decision that code or a page cites is recorded in docs/decisions.md.
func TestCitedDecisionsAreRecorded(t *testing.T) {
	ids := readDecisions(t)
	if len(ids) == 0 {
		t.Fatal("no record was read")
	}
	root := filepath.Join("..", "..")
	cited := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "dist") {
			return fs.SkipDir
		}
		if ext := filepath.Ext(path); d.IsDir() || ext != ".go" && ext != ".md" && ext != ".yaml" || filepath.Base(path) == "decisions.md" || filepath.Base(path) == "decisions_test.go" {
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
					t.Errorf("%s cites decision %s, which docs/decisions.md does not have", path, id)
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
