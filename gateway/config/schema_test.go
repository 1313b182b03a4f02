package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
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

// TestEnumsAreThoseOfTheChecks gives each enumerated field a value that is not listed, which
// validation must reject. The full file and the tests of the sections check the listed values.
func TestEnumsAreThoseOfTheChecks(t *testing.T) {
	for path := range enums {
		text := readTestdata(t, "full.yaml")
		name := path[strings.LastIndex(path, ".")+1:]
		line := regexp.MustCompile(`(?m)((?:^|[ {])` + name + `: )[a-z_"]+`)
		switch path {
		case "policy.rules[].when.direction", "policy.rules[].when.result_type", "policy.rules[].action":
		case "rate_limit_store.type":
			line = regexp.MustCompile(`(type: )in_memory`)
		}
		changed := line.ReplaceAllString(text, "${1}bogus")
		if changed == text {
			t.Errorf("testdata/full.yaml does not show %s", path)
			continue
		}
		if f, _ := Parse("f.yaml", []byte(changed), environment); f != nil {
			t.Errorf("%s: bogus was accepted", path)
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
