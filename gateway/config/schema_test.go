package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"svc/gateway/base/diag"
)

// TestDocuments compares the generated documents with the code; -update rewrites them.
func TestDocuments(t *testing.T) {
	for name, make := range map[string]func() ([]byte, error){
		"configuration.md": Markdown,
		"svc.schema.json":  Schema,
	} {
		got, err := make()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("..", "..", "docs", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: go test ./gateway/config -run TestDocuments -update", path)
		}
	}
}

// TestEveryFieldIsDescribed fails for a field without a comment.
func TestEveryFieldIsDescribed(t *testing.T) {
	root, err := Describe()
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{"": true}
	var walk func(n *Node)
	walk = func(n *Node) {
		paths[n.Path] = true
		for _, f := range n.Fields {
			if f.Doc == "" && f.Type != "any" && !strings.HasPrefix(f.Path, "routes[].match.") {
				t.Errorf("%s has no comment in comments.json: run go generate ./gateway/config", f.Path)
			}
			walk(f)
		}
		if n.Elem != nil {
			walk(n.Elem)
		}
	}
	walk(root)
	for path := range enums {
		if !paths[path] {
			t.Errorf("enums names %s, which is no field", path)
		}
	}
	for path, names := range requiredFields {
		for _, name := range names {
			if !paths[strings.TrimPrefix(path+"."+name, ".")] {
				t.Errorf("requiredFields names %s below %q, which is no field", name, path)
			}
		}
	}
}

// TestEnumsAreThoseOfTheChecks gives each enumerated field each listed value, which validation must
// accept, and values that are not listed, which it must reject: one that means nothing, and each
// word of the advice in that error. The schema would refuse, in an editor, a value that works.
func TestEnumsAreThoseOfTheChecks(t *testing.T) {
	for path, listed := range enums {
		text := readTestdata(t, "full.yaml")
		name := path[strings.LastIndex(path, ".")+1:]
		line := regexp.MustCompile(`(?m)((?:^|[ {])` + name + `: )[a-z_"]+`)
		switch path {
		case "audit.sinks[].type":
			line = regexp.MustCompile(`(type: )(?:http|syslog)`)
		case "rate_limit_store.type":
			line = regexp.MustCompile(`(type: )in_memory`)
		case "tool_search.mode":
			line = regexp.MustCompile(`(mode: )passthrough`)
		case "policy.rules[].mode":
			line = regexp.MustCompile(`(mode: )observe`)
		}
		refused := func(value string) (advice string, refused bool) {
			changed := line.ReplaceAllString(text, "${1}"+`"`+value+`"`)
			if changed == text && value == "bogus" {
				t.Errorf("testdata/full.yaml does not show %s", path)
			}
			_, found := Parse("f.yaml", []byte(changed), environment)
			for _, d := range found {
				if d.Severity == diag.Error && (d.Code == "enum" || strings.Contains(d.Message, strconv.Quote(value))) {
					return d.Hint, true
				}
			}
			return "", false
		}
		for _, value := range listed {
			if advice, no := refused(value); no {
				t.Errorf("%s: %q is listed, and was refused: %s", path, value, advice)
			}
		}
		advice, no := refused("bogus")
		if !no {
			t.Errorf("%s: bogus was accepted", path)
		}
		for _, word := range regexp.MustCompile(`[a-z0-9_-]+`).FindAllString(advice, -1) {
			if _, no := refused(word); !no && !slices.Contains(listed, word) {
				t.Errorf("%s: %q was accepted, and is not in the schema", path, word)
			}
		}
	}
}

// No description of a value or a field begins with a capital that the file does not have.
func TestDescriptionsKeepTheSpelling(t *testing.T) {
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range enums {
		for _, v := range values {
			if capital := strings.ToUpper(v[:min(1, len(v))]) + v[min(1, len(v)):]; v != capital && regexp.MustCompile(`"description": "`+capital+`(,| or | \()`).Match(schema) {
				t.Errorf("a description begins with %s, the value is %s", capital, v)
			}
		}
	}
}

// TestSchemaAgreesWithTheLoader validates the same files with both.
func TestSchemaAgreesWithTheLoader(t *testing.T) {
	data, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("svc.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("svc.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, text string
		ok         bool
	}{
		{"full", readTestdata(t, "full.yaml"), true},
		{"minimal", readTestdata(t, "minimal.yaml"), true},
		{"mistakes", readTestdata(t, "mistakes.yaml"), false},
		{"unknown key", with(map[string]string{"x": "listn: a"}), false},
		{"nested unknown key", with(map[string]string{"x": "shutdown: {grac: 1s}"}), false},
		{"missing section", with(map[string]string{"audit": ""}), false},
		{"a program", with(map[string]string{"upstreams": "upstreams: [{name: a, command: [b, -c]}]"}), true},
		{"a program and a url", with(map[string]string{"upstreams": "upstreams: [{name: a, url: 'http://b/', command: [b]}]"}), false},
		{"neither", with(map[string]string{"upstreams": "upstreams: [{name: a}]"}), false},
		{"unknown sharing", with(map[string]string{"upstreams": "upstreams: [{name: a, command: [b], sharing: everyone}]"}), false},
		{"number for text", with(map[string]string{"listen": "listen: 5"}), false},
		{"duration without unit", with(map[string]string{"x": "shutdown: {grace: 30}"}), false},
		{"duration of zero", with(map[string]string{"x": "shutdown: {drain_signal_window: 0}"}), true},
		{"duration", with(map[string]string{"x": "shutdown: {grace: 1m30s}"}), true},
		{"enumerated value", with(map[string]string{"x": "tool_search: {mode: magic}"}), false},
		{"fraction for a whole number", with(map[string]string{"x": "input_rate_limit: {burst: 1.5}"}), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, found := Parse("f.yaml", []byte(tc.text), environment)
			if (f != nil) != tc.ok {
				t.Errorf("the loader: %v", found)
			}
			value, err := plainYAML(tc.text)
			if err != nil {
				return // YAML libraries reject duplicate keys themselves
			}
			if err := schema.Validate(value); (err == nil) != tc.ok {
				t.Errorf("the schema: %v", err)
			}
		})
	}
}

// plainYAML decodes YAML as an editor does, into JSON types; dates are text.
func plainYAML(text string) (any, error) {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return nil, err
	}
	data, err := json.Marshal(dates(v))
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(data))
}

func dates(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = dates(e)
		}
	case []any:
		for i, e := range v {
			v[i] = dates(e)
		}
	case time.Time:
		return v.Format(time.RFC3339)
	}
	return v
}
