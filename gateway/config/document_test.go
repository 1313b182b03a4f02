package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"svc/gateway/base/diag"
)

// TestDocumentUnset: an unset variable is an error for the gateway and an info for a check that
// runs elsewhere, which then does not validate the field.
func TestDocumentUnset(t *testing.T) {
	text := with(map[string]string{"upstreams": "upstreams: [{name: a, url: \"${NOT_SET}\"}]"})
	if d := ParseDocument("f.yaml", []byte(text), Options{}); d.File() != nil {
		t.Errorf("accepted: %v", d.Findings())
	}
	d := ParseDocument("f.yaml", []byte(text), Options{UnsetIsInfo: true})
	if d.File() == nil {
		t.Fatalf("refused: %v", d.Findings())
	}
	found := d.Findings()
	if len(found) != 1 || found[0].Severity != diag.Info || found[0].Code != "env-unset" || !strings.Contains(found[0].Message, "NOT_SET") {
		t.Errorf("got %v", found)
	}
}

// TestDocumentDraft: the part that could be read is available although the file has errors.
func TestDocumentDraft(t *testing.T) {
	d := ParseDocument("f.yaml", []byte(with(map[string]string{"x": "bogus: 1"})), Options{})
	if d.File() != nil || d.Draft() == nil || len(d.Draft().Upstreams) != 1 {
		t.Errorf("file %v, draft %v", d.File(), d.Draft())
	}
	if d := ParseDocument("f.yaml", []byte("a: [\n"), Options{}); d.Draft() != nil || d.Complete([]diag.Finding{{Path: "listen"}}) != nil {
		t.Error("a text that is no YAML has a draft")
	}
	if d := ReadDocument(filepath.Join(t.TempDir(), "missing.yaml"), Options{}); !d.Unreadable() || d.Draft() != nil {
		t.Errorf("got %v", d.Findings())
	}
}

// TestDocumentWritten: the text of the file, before variables are expanded.
func TestDocumentWritten(t *testing.T) {
	d := ParseDocument("f.yaml", []byte(readTestdata(t, "full.yaml")), Options{Getenv: environment})
	for path, want := range map[string]string{
		"upstreams[0].headers.Authorization": "Bearer ${SEARCH_TOKEN}",
		"listen":                             "127.0.0.1:8081",
		"policy.rules[0].id":                 "no-shell",
		"policy.rules[99].id":                "",
		"policy.rules":                       "",
		"nowhere.at.all":                     "",
	} {
		if got, ok := d.Written(path); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v", path, got, ok)
		}
	}
	if !d.Given("policy.rules[0]") || d.Given("policy.nothing") {
		t.Error("Given is wrong")
	}
}

// TestDocumentComplete: findings get their position, values of the environment are removed from
// them, and they are dropped if the field could not be read.
func TestDocumentComplete(t *testing.T) {
	text := with(map[string]string{"x": "allowed_hosts: [\"${SEARCH_TOKEN}\"]\nstate_dir: 5"})
	d := ParseDocument("f.yaml", []byte(text), Options{Getenv: environment})
	token, _ := environment("SEARCH_TOKEN")
	got := d.Complete([]diag.Finding{
		{Code: "x", Path: "allowed_hosts[0]", Message: "host " + token},
		{Code: "y", Path: "state_dir", Message: "echo"},
	})
	if len(got) != 1 || got[0].Message != "host ${SEARCH_TOKEN}" || got[0].Pos.Line == 0 || got[0].Excerpt == "" || got[0].Caret == 0 {
		t.Errorf("got %+v", got)
	}
}

func TestDirectives(t *testing.T) {
	const text = `listen: 127.0.0.1:0 # svc-lint: ignore a one line
# svc-lint: ignore b all of policy

# another remark
policy:
  default_action: deny
  rules:
    - id: first # svc-lint: ignore c the whole rule
      action: allow
      when: {tool_name: x}
    # svc-lint: ignore d,e the second
    - id: "second # svc-lint: ignore no comment"
      action: redact
      when:
        tool_name: y
      redact:
        - regex: |
            a # svc-lint: ignore data
            b
audit: {path: "x#svc-lint: ignore f"}
# svc-lint: ignore g at the end
`
	d := ParseDocument("f.yaml", []byte(text), Options{})
	type got struct {
		text           string
		line, from, to int
	}
	var list []got
	for _, x := range d.Directives() {
		list = append(list, got{x.Text, x.Pos.Line, x.From, x.To})
	}
	want := []got{
		{"ignore a one line", 1, 1, 1},
		{"ignore b all of policy", 2, 5, 19},
		{"ignore c the whole rule", 8, 8, 10},
		{"ignore d,e the second", 11, 12, 19},
		{"ignore g at the end", 21, 22, 22},
	}
	if !slices.Equal(list, want) {
		t.Errorf("got  %v\nwant %v", list, want)
	}
}

// anything is a struct as a command would decode.
type anything struct {
	Name  string `yaml:"name"`
	Value JSON   `yaml:"value"`
}

func (a *anything) Validate(at diag.At) {
	if a.Name == "" {
		at.Field("name").Errorf("required", "is required")
	}
}

func TestDecodeJSON(t *testing.T) {
	for _, c := range []struct{ name, text, want, code string }{
		{"nested", "name: a\nvalue: {b: [1, 2.5, true, null, \"x\\ty\"], a: {}}", `{"b":[1,2.5,true,null,"x\ty"],"a":{}}`, ""},
		{"text", "name: a\nvalue: 2026-01-01", `"2026-01-01"`, ""},
		{"absent", "name: a", "", ""},
		{"null", "name: a\nvalue:", "null", ""},
		{"ambiguous number", "name: a\nvalue: 0123", "", "wrong-type"},
		{"duplicate key", "name: a\nvalue: {a: 1, a: 2}", "", "duplicate-key"},
		{"alias", "name: a\nvalue: {a: &x 1, b: *x}", "", "alias"},
		{"unknown key", "nam: a", "", "unknown-key"},
		{"validated", "value: 1", "", "required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v anything
			found := Decode("cases.yaml", []byte(c.text), &v).Findings()
			if c.code != "" {
				if !slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Code == c.code && (f.Pos.Line > 0 || c.code == "required") }) {
					t.Errorf("got %v, want %s", found, c.code)
				}
				return
			}
			if len(found) > 0 || string(v.Value) != c.want {
				t.Errorf("got %s %v, want %s", v.Value, found, c.want)
			}
		})
	}
}

// FuzzDirectives: every directive is a part of the text, whatever the text is.
func FuzzDirectives(f *testing.F) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add("a: 1 # svc-lint: ignore x\n# svc-lint: ignore y\nb:\n  - c # svc-lint:\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, x := range ParseDocument("f.yaml", []byte(text), Options{}).Directives() {
			if x.From < x.Pos.Line || x.To < x.From || x.Pos.Column < 1 {
				t.Fatalf("%+v", x)
			}
		}
	})
}
