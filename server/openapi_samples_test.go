package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// samples generates values of the schemas of the served document. Values of members
// that refer to something, such as agentId, are given by their member names.
type samples struct {
	t    testing.TB
	doc  map[string]any
	meet map[string]any // values by member name
}

// of returns values of a schema that together cover each of its branches, enum
// values and members. member is the name of the member that the value is for.
func (g *samples) of(schema map[string]any, member string) []any {
	if ref, ok := schema["$ref"].(string); ok {
		return g.of(g.resolve(ref), member)
	}
	if v, ok := g.meet[member]; ok && schema["properties"] == nil && schema["items"] == nil {
		return []any{v}
	}
	if v, ok := schema["const"]; ok {
		return []any{v}
	}
	if list, ok := schema["enum"].([]any); ok {
		return list
	}
	if branches := branchesOf(schema); branches != nil && schema["properties"] == nil {
		var out []any
		for _, b := range branches {
			out = append(out, g.of(b.(map[string]any), member)...)
		}
		return out
	}
	if types, ok := schema["type"].([]any); ok {
		var out []any
		for _, one := range types {
			if one == "null" {
				out = append(out, nil)
				continue
			}
			alone := maps.Clone(schema)
			alone["type"] = one
			out = append(out, g.of(alone, member)...)
		}
		return out
	}
	switch schema["type"] {
	case "object":
		return g.objects(schema)
	case "array":
		items := g.of(schema["items"].(map[string]any), member+"[]")
		if most := int(number(schema, "maxItems", math.MaxInt32)); len(items) > most {
			items = items[:most]
		}
		if number(schema, "minItems", 0) > 0 {
			return []any{items}
		}
		return []any{items, []any{}}
	case "null":
		return []any{nil}
	case "boolean":
		return []any{false, true}
	case "integer", "number":
		low := number(schema, "minimum", 1)
		if above, ok := schema["exclusiveMinimum"]; ok {
			low = float(above) + 0.5
		}
		return []any{low, number(schema, "maximum", low+1)}
	case "string":
		if schema["format"] == "date-time" {
			return []any{epoch.UTC().Format(time.RFC3339)}
		}
		return []any{strings.Repeat("a", int(number(schema, "minLength", 1))), strings.Repeat("a", int(number(schema, "maxLength", 2)))}
	}
	g.t.Fatalf("%s: no sample of the schema %v", member, schema)
	return nil
}

// objects returns values of an object schema: with the required members only, with
// each optional member added, with all members, and with each value of each member.
func (g *samples) objects(schema map[string]any) []any {
	properties := schema["properties"].(map[string]any)
	values := map[string][]any{}
	full := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		values[name] = g.of(properties[name].(map[string]any), name)
		full[name] = values[name][0]
	}
	var out []any
	for _, b := range append(branchesOf(schema), nil) {
		branch, _ := b.(map[string]any)
		if b == nil && len(branchesOf(schema)) > 0 || b != nil && branch["required"] == nil {
			continue
		}
		least := map[string]any{}
		for _, name := range slices.Concat(stringsOf(schema["required"]), stringsOf(branch["required"])) {
			least[name] = full[name]
		}
		if len(least) > 0 || schema["required"] == nil {
			out = append(out, least)
		}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			one := maps.Clone(least)
			one[name] = full[name]
			with, _ := schema["dependentRequired"].(map[string]any)
			for _, other := range stringsOf(with[name]) {
				one[other] = full[other]
			}
			out = append(out, one)
		}
	}
	for name, all := range values {
		for _, v := range all {
			one := maps.Clone(full)
			one[name] = v
			out = append(out, one)
		}
	}
	return out
}

func (g *samples) resolve(ref string) map[string]any {
	at := any(g.doc)
	for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.(map[string]any)[token]
	}
	return at.(map[string]any)
}

// branchesOf returns the alternatives of a schema (oneOf, anyOf).
func branchesOf(schema map[string]any) []any {
	for _, word := range []string{"anyOf", "oneOf"} {
		if list, ok := schema[word].([]any); ok {
			return slices.Clip(list)
		}
	}
	return nil
}

func number(schema map[string]any, word string, otherwise float64) float64 {
	if v, ok := schema[word]; ok {
		return float(v)
	}
	return otherwise
}

func float(v any) float64 {
	f, _ := v.(json.Number).Float64()
	return f
}

// withMember returns copies of a JSON value, one for each of its objects, in which
// that object has one more member, by the path of the member. In a list only the
// first and the last entry are changed.
func withMember(v any, path, name string, value any) map[string]any {
	out := map[string]any{}
	switch v := v.(type) {
	case map[string]any:
		more := maps.Clone(v)
		more[name] = value
		out[join(path, name)] = more
		for member, child := range v {
			for at, changed := range withMember(child, join(path, member), name, value) {
				one := maps.Clone(v)
				one[member] = changed
				out[at] = one
			}
		}
	case []any:
		for i, child := range v {
			if i > 0 && i < len(v)-1 {
				continue
			}
			for at, changed := range withMember(child, fmt.Sprintf("%s[%d]", path, i), name, value) {
				one := slices.Clone(v)
				one[i] = changed
				out[at] = one
			}
		}
	}
	return out
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// servedDocument is the document as clients get it, with its schemas.
func servedDocument(t testing.TB) (map[string]any, *jsonschema.Compiler) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(document)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("served.json", doc); err != nil {
		t.Fatal(err)
	}
	return doc.(map[string]any), c
}
