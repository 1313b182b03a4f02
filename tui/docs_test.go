package tui

import (
	"os"
	"strings"
	"testing"
)

// The documentation and the help name every field of a filter, and the
// documentation has the current limits.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/tui.md")
	if err != nil {
		t.Fatal(err)
	}
	s := testScreen(200, 60)
	s.Key("?")
	for _, f := range filterFields {
		if !strings.Contains(string(page), "`"+f) {
			t.Errorf("docs/tui.md does not name the field %s", f)
		}
		if !strings.Contains(s.View(), f) {
			t.Errorf("the help does not name the field %s", f)
		}
	}
	for _, want := range []string{"30 by 7 cells", "the last 200", "The last 10,000 traces", "up to 2,000 older traces"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/tui.md does not say %q", want)
		}
	}
	if minWidth != 30 || minHeight != 7 || recent != 200 || maxLooked != 2000 || historySize != 10_000 {
		t.Error("the limits have changed: docs/tui.md has the old ones")
	}
}
