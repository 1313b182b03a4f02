package planecmd

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"svc/store/api"
)

func TestRead(t *testing.T) {
	list, err := Read("f.yaml", []byte(`---
kind: Agent
name: "1"
spec: {configYaml: "a: 1", since: 2026-01-01, n: 1.50, on: yes, deep: {list: [a, true, ~]}}
---
# nothing here
---
{"kind": "Team", "name": "ops"}
---
documents:
  - kind: Budget
    name: b
    spec: {limitUsd: 5}
warnings: [x]
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range list {
		got = append(got, d.At()+" "+d.Kind+" "+d.Name+" "+string(d.Spec))
	}
	want := `f.yaml:2 Agent 1 {"configYaml":"a: 1","since":"2026-01-01","n":1.50,"on":"yes","deep":{"list":["a",true,null]}}
f.yaml:8 Team ops 
f.yaml:11 Budget b {"limitUsd":5}`
	if strings.Join(got, "\n") != want {
		t.Errorf("read\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"an anchor":            {"kind: &k Team\nname: x", "f:1:7: the anchor &k"},
		"an anchor of a map":   {"kind: Team\nname: x\nspec: &s {a: 1}", "f:3:7: the anchor &s"},
		"an alias":             {"kind: Team\nname: *k", "unknown anchor"},
		"a circle":             {"kind: Team\nname: x\nspec: &a [*a]", "anchor"},
		"a merge key":          {"kind: Team\nname: x\nspec:\n  <<: {a: 1}", "f:4:3: the merge key"},
		"a tag":                {"kind: !!str Team\nname: x", "f:1:7: the tag !!str"},
		"a tag of ours":        {"kind: Team\nname: !secret x", "f:2:7: the tag !secret"},
		"a name twice":         {"kind: Team\nname: x\nname: y", `f:3:1: "name" is given twice`},
		"a name twice below":   {"kind: Team\nname: x\nspec: {a: 1, 'a': 2}", `is given twice`},
		"a number as a name":   {"kind: Team\nname: 1", "f:2:7: name must be a string"},
		"an unknown member":    {"kind: Team\nname: x\nid: 1", `f:3:1: unknown member "id"`},
		"no kind":              {"name: x", "f:1:1: the document has no kind"},
		"no name":              {"kind: Team", "f:1:1: the document has no name"},
		"a list":               {"- kind: Team", "must be an object"},
		"a text":               {"Team", "must be an object"},
		"a list as a name":     {"kind: Team\nname: x\nspec: {[a]: 1}", "a name must be a string"},
		"infinity":             {"kind: Budget\nname: x\nspec: {limitUsd: .inf}", "f:3:18: .inf: write the number in decimal"},
		"an octal number":      {"kind: Budget\nname: x\nspec: {limitUsd: 0o17}", "write the number in decimal"},
		"an octal of YAML 1.1": {"kind: Budget\nname: x\nspec: {limitUsd: 017}", "write the number in decimal"},
		"a binary value":       {"kind: Team\nname: x\nspec: {a: !!binary aGk=}", "the tag !!binary"},
		"no YAML":              {"kind: [", "f: "},
		"too deep":             {"kind: Team\nname: x\nspec: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested deeper"},
		"a documents member":   {"documents: []\nname: x", "unknown member"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := Read("f", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want %q", list, err, tc.want)
			}
		})
	}
}

// TestWriteAndRead: reading returns what was written, for any contents.
func TestWriteAndRead(t *testing.T) {
	for _, s := range []string{"", "plain", "a: b", "- x", "yes", "null", "~", "1", "1e3", "0x10", "12:30", "2026-01-01", "#", " lead", "trail ", "\ttab", "a\tb",
		"line\n", "line\nline", "line\n\n", "\nline", " line\nline", "\tline\nline\n", "line\n  indented\n", "line \nline", "a\r\nb", "\n", "\n\n", "---\nx", "...\n",
		"é\u0301", "日本", "🙂\nx", "\u0085x", "a\u2028b\nc", "'\"", "%{x}", "&a", "*a", "!t", "<<", "{", "[", "\\n", "x: |\n  y\n", "key: value # c\n"} {
		spec, err := json.Marshal(map[string]any{"configYaml": s})
		if err != nil {
			t.Fatal(err)
		}
		doc := api.Document{Kind: "Agent", Name: "x" + s, Spec: spec}
		var b bytes.Buffer
		if err := write(&b, []api.Document{doc, doc}); err != nil {
			t.Fatal(err)
		}
		list, err := Read("f", b.Bytes())
		if err != nil || len(list) != 2 {
			t.Errorf("%q: %v\n%s", s, err, b.String())
			continue
		}
		var got struct{ ConfigYAML string }
		if err := json.Unmarshal(list[1].Spec, &got); err != nil || got.ConfigYAML != s || list[1].Name != doc.Name {
			t.Errorf("%q is read as %q, name %q\n%s", s, got.ConfigYAML, list[1].Name, b.String())
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("kind: Team\nname: x\nspec: {a: [1, b]}\n---\n"))
	f.Add([]byte(`{"documents":[{"kind":"Agent","name":"a","spec":{}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Read("f", text)
		if err != nil {
			return
		}
		for _, d := range list {
			if len(d.Spec) > 0 && !json.Valid(d.Spec) {
				t.Errorf("the spec %q is no JSON", d.Spec)
			}
		}
	})
}
