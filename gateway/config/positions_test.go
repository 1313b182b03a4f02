package config

import (
	"testing"

	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"svc/gateway/base/diag"
)

// TestPathsAreReadAsTheyWereWritten builds a path of any names and indexes and splits it again.
func TestPathsAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type step struct {
			name  string
			index int
		}
		var steps []step
		at := diag.New().Root()
		for range rapid.IntRange(0, 6).Draw(t, "depth") {
			if rapid.Bool().Draw(t, "list") {
				s := step{"", rapid.IntRange(0, 1000).Draw(t, "index")}
				steps, at = append(steps, s), at.Index(s.index)
				continue
			}
			s := step{rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z_.\[\]"0-9-]{1,6}`)).Draw(t, "name"), -1}
			steps, at = append(steps, s), at.Field(s.name)
		}
		path := at.Path()
		for i, want := range steps {
			var got step
			got.name, got.index, path = cutPath(path)
			if got != want {
				t.Fatalf("step %d of %q: got %+v, want %+v", i, at.Path(), got, want)
			}
		}
		if path != "" {
			t.Fatalf("left over: %q", path)
		}
	})
}

// TestPositions checks the positions of findings about fields.
func TestPositions(t *testing.T) {
	const text = `listen: a
tls:
  cert_file: b
upstreams:
  - name: c
    headers:
      X.Y: d
  - {name: e}
empty: ""
`
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		line, col  int
	}{
		{"a value", "listen", 1, 9},
		{"a mapping, at its key", "tls", 2, 1},
		{"a value in it", "tls.cert_file", 3, 14},
		{"a missing field, at its parent", "tls.key_file", 2, 1},
		{"a list, at its key", "upstreams", 4, 1},
		{"an element", "upstreams[0]", 5, 5},
		{"a value of an element", "upstreams[1].name", 8, 12},
		{"a name in quotes", `upstreams[0].headers["X.Y"]`, 7, 12},
		{"a missing element", "upstreams[7].name", 4, 1},
		{"an empty value, at its key", "empty", 9, 1},
		{"a missing section", "audit.path", 0, 0},
		{"the file", "", 0, 0},
	} {
		if got := locate(doc.Content[0], c.path); got.Line != c.line || got.Column != c.col {
			t.Errorf("%s: %s is at %d:%d, want %d:%d", c.name, c.path, got.Line, got.Column, c.line, c.col)
		}
	}
}
