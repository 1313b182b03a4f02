package diag_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svc/gateway/base/diag"
)

func TestCursorNamesTheField(t *testing.T) {
	r := diag.New()
	root := r.Root()
	rule := root.Field("policy").Field("rules").Index(3)
	rule.Field("when").Field("method").Hint("use %s", "tools/call").Errorf("bad-method", "unknown method %q", "x")
	rule.Warnf("odd", "odd")
	root.Field("headers").Field("X-A.B").Errorf("bad-header", "bad")
	root.Errorf("file", "whole file")

	want := []diag.Finding{
		{Code: "bad-method", Path: "policy.rules[3].when.method", Message: `unknown method "x"`, Hint: "use tools/call"},
		{Code: "odd", Severity: diag.Warning, Path: "policy.rules[3]", Message: "odd"},
		{Code: "bad-header", Path: `headers["X-A.B"]`, Message: "bad"},
		{Code: "file", Message: "whole file"},
	}
	if d := cmp.Diff(want, r.Findings()); d != "" {
		t.Error(d)
	}
}

func TestHintBelongsToItsCursorOnly(t *testing.T) {
	r := diag.New()
	at := r.Root().Field("a").Hint("do this")
	at.Field("b").Errorf("x", "child")
	at.Index(0).Errorf("x", "element")
	for _, f := range r.Findings() {
		if f.Hint != "" {
			t.Errorf("%s: hint %q leaked from the parent", f.Path, f.Hint)
		}
	}
}

func TestZeroCursorDropsReports(t *testing.T) {
	var at diag.At
	at.Field("x").Index(1).Errorf("x", "nothing listens")
}

func TestErrIsNilForWarnings(t *testing.T) {
	r := diag.New()
	r.Root().Warnf("w", "only a warning")
	if err := r.Err(); err != nil {
		t.Errorf("Err() = %v, want nil", err)
	}
	r.Root().Field("a").Errorf("e", "first")
	r.Root().Field("b").Errorf("e", "second")
	err := r.Err()
	var fs diag.Findings
	if !errors.As(err, &fs) || len(fs) != 3 {
		t.Fatalf("Err() = %v, want all three findings", err)
	}
	if got, want := err.Error(), "a: first, and 1 more error"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestReportIsBounded(t *testing.T) {
	r := diag.New()
	for i := range diag.MaxFindings + 7 {
		r.Root().Index(i).Errorf("x", "x")
	}
	fs := r.Findings()
	if len(fs) != diag.MaxFindings+1 {
		t.Fatalf("%d findings kept, want %d and the note", len(fs), diag.MaxFindings)
	}
	if last := fs[len(fs)-1]; last.Code != "too-many-findings" || !strings.Contains(last.Message, "7 further") {
		t.Errorf("last finding = %v", last)
	}
}

func TestJoinCanBeReadInOneWayOnly(t *testing.T) {
	for _, c := range []struct{ path, name, want string }{
		{"", "listen", "listen"},
		{"a", "b", "a.b"},
		{"a", "b.c", `a["b.c"]`},
		{"a", "", `a[""]`},
		{"a", "b[0]", `a["b[0]"]`},
		{"a", "x\n\"", `a["x\n\""]`},
	} {
		if got := diag.Join(c.path, c.name); got != c.want {
			t.Errorf("Join(%q, %q) = %s, want %s", c.path, c.name, got, c.want)
		}
	}
}

func TestSortIsByPosition(t *testing.T) {
	fs := []diag.Finding{
		{Code: "c", Pos: diag.Pos{File: "f", Line: 2, Column: 1}},
		{Code: "b", Pos: diag.Pos{File: "f", Line: 1, Column: 9}},
		{Code: "a", Pos: diag.Pos{File: "f", Line: 1, Column: 9}},
		{Code: "d", Pos: diag.Pos{File: "f"}},
	}
	diag.Sort(fs)
	got := ""
	for _, f := range fs {
		got += f.Code
	}
	if got != "dabc" {
		t.Errorf("order %q, want dabc", got)
	}
}

func TestTextRendering(t *testing.T) {
	fs := []diag.Finding{
		{Code: "unknown-field", Path: "policy.rules[0]", Message: `unknown field "idd"`, Hint: `did you mean "id"?`,
			Pos: diag.Pos{File: "svc.yaml", Line: 4, Column: 5}, Excerpt: "\t  idd: x", Caret: 4},
		{Code: "w", Severity: diag.Warning, Message: "no position"},
		{Code: "hostile", Message: "bad \x1b[31mname\u202e", Pos: diag.Pos{File: "a\nb", Line: 1, Column: 3}, Excerpt: "\x1b\u202ex", Caret: 3},
	}
	var b strings.Builder
	if err := diag.WriteText(&b, fs); err != nil {
		t.Fatal(err)
	}
	want := "svc.yaml:4:5: error: policy.rules[0]: unknown field \"idd\" [unknown-field]\n" +
		"    4 | \t  idd: x\n" +
		"      | \t  ^\n" +
		"      = did you mean \"id\"?\n" +
		"warning: no position [w]\n" +
		"a\\u000ab:1:3: error: bad \\u001b[31mname\\u202e [hostile]\n" +
		"    1 | \\u001b\\u202ex\n" +
		"      |             ^\n"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestJSONRendering(t *testing.T) {
	var b strings.Builder
	if err := diag.WriteJSON(&b, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "{\n  \"findings\": [],\n  \"errors\": 0,\n  \"warnings\": 0\n}\n"; got != want {
		t.Errorf("empty report: %s, want %s", got, want)
	}
	b.Reset()
	err := diag.WriteJSON(&b, []diag.Finding{
		{Code: "c", Path: "a<b", Message: "m", Hint: "h", Pos: diag.Pos{File: "f", Line: 1, Column: 2}},
		{Code: "w", Severity: diag.Warning, Message: "m"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "findings": [
    {
      "code": "c",
      "severity": "error",
      "file": "f",
      "line": 1,
      "column": 2,
      "path": "a<b",
      "message": "m",
      "hint": "h"
    },
    {
      "code": "w",
      "severity": "warning",
      "message": "m"
    }
  ],
  "errors": 1,
  "warnings": 1
}
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestSeverityText(t *testing.T) {
	for _, s := range []diag.Severity{diag.Error, diag.Warning, diag.Info} {
		text, err := s.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back diag.Severity
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%s came back as %s, %v", s, back, err)
		}
	}
	var s diag.Severity
	if err := s.UnmarshalText([]byte("fatal")); err == nil {
		t.Error("an unknown severity was accepted")
	}
}

func TestFindingError(t *testing.T) {
	f := diag.Finding{Path: "a", Message: "m", Hint: "h", Pos: diag.Pos{File: "f", Line: 1}}
	if got, want := fmt.Sprint(f), "f:1: a: m (h)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
