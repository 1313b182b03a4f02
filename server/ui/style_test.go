package ui

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestClasses: every class of a page has a rule, and every rule's class is on a page.
func TestClasses(t *testing.T) {
	sheet, err := files.ReadFile("static/style.css")
	rules := regexp.MustCompile(`(?s)/\*.*?\*/|[{;][^{}]*\}`).ReplaceAllString(string(sheet), "{}")
	pages, _ := filepath.Glob("templates/*.html")
	text := `class="good warn bad block dim s1 s2 s3 s4 s5"` // levels of display, and series of charts
	for _, name := range append(pages, "chart.go") {
		b, _ := os.ReadFile(name)
		text += string(b)
	}
	text = regexp.MustCompile(`\{\{scroll "[^"]*" "(\w*)"`).ReplaceAllString(text, ` class="scroll $1" {{`)
	text = regexp.MustCompile(`\{\{[^}]*\}\}|%s`).ReplaceAllString(text, " ")
	used := map[string]bool{}
	for _, list := range regexp.MustCompile(`class="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		for class := range strings.FieldsSeq(list[1]) {
			if used[class] = true; !regexp.MustCompile(`\.` + class + `\b`).MatchString(rules) {
				t.Errorf("class %s has no rule", class)
			}
		}
	}
	for _, class := range regexp.MustCompile(`\.([a-z]\w*)`).FindAllStringSubmatch(rules, -1) {
		if !used[class[1]] || err != nil {
			t.Errorf("rule .%s is for no page (%v)", class[1], err)
		}
	}
}
