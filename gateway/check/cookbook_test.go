package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/gateway/base/diag"
	"svc/gateway/config"
)

// TestCookbook: every recipe of docs/cookbook is a valid file without lint
// findings, its cases pass and reach every rule, and the page shows the rules
// of the file.
func TestCookbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy-cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../docs/cookbook/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		name, isRecipe := strings.CutSuffix(filepath.Base(path), ".yaml")
		if strings.HasSuffix(name, ".policy-test") || !isRecipe {
			continue
		}
		t.Run(name, func(t *testing.T) {
			getenv := func(string) (string, bool) {
				return "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$2Yqx0mJ5m0b5i7k7Yk6m3o0pF9rj4mF1uB3c2tq3y0E", true
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			doc := config.ParseDocument(path, data, config.Options{Getenv: getenv})
			if found := Lint(doc, time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)); len(found) > 0 {
				t.Errorf("lint: %v", found)
			}
			if doc.File() == nil {
				t.Fatal("the file has errors")
			}
			_, rules, _ := strings.Cut(string(data), "\npolicy:\n")
			rules = "policy:\n" + rules
			if _, labels, ok := strings.Cut(string(data), "\ndata_flow:\n"); ok {
				rules = "data_flow:\n" + labels
			}
			if !strings.Contains(string(page), "```yaml\n"+rules+"```") || !strings.Contains(string(page), "(cookbook/"+name+".yaml)") {
				t.Error("the page does not show the rules as they are in the file")
			}
			e, err := New(doc.File())
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(strings.TrimSuffix(path, ".yaml") + ".policy-test.yaml")
			if err != nil {
				t.Fatal(err)
			}
			var cases Cases
			if found := config.Decode("cases", text, &cases).Findings(); diag.HasErrors(found) {
				t.Fatal(found)
			}
			var results []CaseResult
			for i := range cases.Cases {
				r := e.Run(&cases.Cases[i])
				for _, f := range r.Failures {
					t.Errorf("%s: %+v", r.Case.Name, f)
				}
				results = append(results, r)
			}
			if missed := e.Cover(results).Missed; len(missed) > 0 {
				t.Errorf("no case reaches %v", missed)
			}
		})
	}
}
