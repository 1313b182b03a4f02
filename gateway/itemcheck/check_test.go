package itemcheck

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"svc/gateway/catalog"
)

// whole are items with every member of the schemas.
var whole = map[catalog.Kind]string{
	catalog.Tool: `{"name":"a","title":"t","description":"d","inputSchema":{"$schema":"s","type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"},
		"y":{"type":"object","properties":{"z":{"type":"integer","x-mcp-header":"Z"}}}},"required":["x"]},"outputSchema":{"type":"object","properties":{"r":{}}},
		"annotations":{"title":"t","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false},
		"icons":[{"src":"s","mimeType":"m","sizes":["1x1"],"theme":"dark"}],"execution":{"taskSupport":"optional"},"_meta":{"a":1},"unknown":[null]}`,
	catalog.Prompt:   `{"name":"a","title":"t","description":"d","arguments":[{"name":"x","title":"t","description":"d","required":true}],"icons":[],"_meta":{}}`,
	catalog.Resource: `{"uri":"u","name":"a","title":"t","description":"d","mimeType":"m","size":5,"annotations":{"audience":["user"],"priority":0.5,"lastModified":"2026-02-28T23:59:59.123+01:00"}}`,
	catalog.Template: `{"uriTemplate":"u{x}","name":"a","title":"t","description":"d","mimeType":"m","annotations":{"audience":["assistant"],"priority":1}}`,
}

func TestFit(t *testing.T) {
	for kind, item := range whole {
		for _, modern := range []bool{false, true} {
			got, problem := Fit(kind, []byte(item), modern)
			if problem != "" || string(got) != item {
				t.Errorf("%s, modern %t: %s\n%s", kind, modern, problem, got)
			}
		}
	}
	const tool = `{"name":"a","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}}}`
	in := func(kind catalog.Kind, old, new string) string {
		t.Helper()
		from := tool
		if kind != catalog.Tool {
			from = whole[kind]
		}
		if !strings.Contains(from, old) {
			t.Fatalf("%s has no %s", from, old)
		}
		return strings.Replace(from, old, new, 1)
	}
	property := func(schema string) string { return in(catalog.Tool, `{"type":"string"}`, schema) }
	for _, row := range []struct {
		name           string
		kind           catalog.Kind
		item           string
		legacy, modern string // the beginning of the problem
	}{
		{"no object", catalog.Tool, `["name"]`, "the item is no object", "the item is no object"},
		{"no name", catalog.Tool, in(catalog.Tool, `"name":"a",`, ""), "/name is missing", "/name is missing"},
		{"a title that is null", catalog.Tool, in(catalog.Tool, `{"name"`, `{"title":null,"name"`), "/title is no string", "/title is no string"},
		{"no inputSchema", catalog.Tool, `{"name":"a"}`, "/inputSchema is missing", "/inputSchema is missing"},
		{"inputSchema of another type", catalog.Tool, in(catalog.Tool, `"object"`, `"string"`), "/inputSchema/type is none of", "/inputSchema/type is none of"},
		{"a property that is true", catalog.Tool, property("true"), "/inputSchema/properties/x is no object", ""},
		{"required that is a boolean", catalog.Tool, in(catalog.Tool, `"properties"`, `"required":true,"properties"`), "/inputSchema/required is no array", ""},
		{"an icon without src", catalog.Tool, in(catalog.Tool, `{"name"`, `{"icons":[{"src":"x"},{}],"name"`), "/icons/1/src is missing", "/icons/1/src is missing"},
		{"a hint that is a string", catalog.Tool, in(catalog.Tool, `{"name"`, `{"annotations":{"readOnlyHint":"yes"},"name"`), "/annotations/readOnlyHint", "/annotations/readOnlyHint"},
		{"execution in another form", catalog.Tool, in(catalog.Tool, `{"name"`, `{"execution":{"taskSupport":"no"},"name"`), "/execution/taskSupport is none of", ""},
		{"_meta that is a list", catalog.Prompt, in(catalog.Prompt, `"_meta":{}`, `"_meta":[]`), "/_meta is no object", "/_meta is no object"},
		{"an argument without a name", catalog.Prompt, in(catalog.Prompt, `"name":"x",`, ""), "/arguments/0/name is missing", "/arguments/0/name is missing"},
		{"a size that is a fraction", catalog.Resource, in(catalog.Resource, `"size":5`, `"size":5.5`), "/size", "/size"},
		{"a size beyond 53 bits", catalog.Resource, in(catalog.Resource, `"size":5`, `"size":9007199254740994`), "/size", "/size"},
		{"a priority over 1", catalog.Resource, in(catalog.Resource, "0.5", "1.5"), "/annotations/priority", "/annotations/priority"},
		{"an audience that is unknown", catalog.Resource, in(catalog.Resource, `"user"`, `"model"`), "/annotations/audience/0", "/annotations/audience/0"},
		{"a time without an offset", catalog.Resource, in(catalog.Resource, "+01:00", ""), "/annotations/lastModified", "/annotations/lastModified"},
		{"a day that does not exist", catalog.Resource, in(catalog.Resource, "02-28", "02-30"), "/annotations/lastModified", "/annotations/lastModified"},
		{"an offset of 24 hours", catalog.Resource, in(catalog.Resource, "+01:00", "+24:00"), "/annotations/lastModified", "/annotations/lastModified"},
		{"a resource without uri", catalog.Resource, in(catalog.Resource, `"uri":"u",`, ""), "/uri is missing", "/uri is missing"},
		{"a template without uriTemplate", catalog.Template, in(catalog.Template, `"uriTemplate"`, `"uritemplate"`), "/uriTemplate is missing", "/uriTemplate is missing"},

		{"a header that is empty", catalog.Tool, property(`{"type":"string","x-mcp-header":""}`), "", "/inputSchema/properties/x/x-mcp-header is no token"},
		{"a header that is no string", catalog.Tool, property(`{"type":"string","x-mcp-header":true}`), "", "/inputSchema/properties/x/x-mcp-header is no token"},
		{"a header with a space", catalog.Tool, property(`{"type":"string","x-mcp-header":"a b"}`), "", "/inputSchema/properties/x/x-mcp-header is no token"},
		{"a header on a number", catalog.Tool, property(`{"type":"number","x-mcp-header":"A"}`), "", "/inputSchema/properties/x/x-mcp-header is on a property"},
		{"a header on a property of two types", catalog.Tool, property(`{"type":["string","null"],"x-mcp-header":"A"}`), "", "/inputSchema/properties/x/x-mcp-header is on a property"},
		{"a header on the whole schema", catalog.Tool, in(catalog.Tool, `"properties"`, `"x-mcp-header":"A","properties"`), "", "/inputSchema/x-mcp-header is not on a property"},
		{"a header below items", catalog.Tool, property(`{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`), "", "/inputSchema/properties/x/items/x-mcp-header is not on a property"},
		{"a header below anyOf", catalog.Tool, property(`{"anyOf":[{},{"properties":{"y":{"type":"string","x-mcp-header":"A"}}}]}`), "", "/inputSchema/properties/x/anyOf/1/properties/y/x-mcp-header is not on a property"},
		{"a header in $defs", catalog.Tool, in(catalog.Tool, `"properties"`, `"$defs":{"d":{"type":"string","x-mcp-header":"A"}},"properties"`), "", "/inputSchema/$defs/d/x-mcp-header is not on a property"},
		{"a header twice", catalog.Tool, property(`{"type":"string","x-mcp-header":"A"},"z":{"type":"string","x-mcp-header":"a"}`), "", "/inputSchema/properties/z/x-mcp-header names the header"},
		{"a property called x-mcp-header", catalog.Tool, in(catalog.Tool, `"x":`, `"x-mcp-header":`), "", ""},
		{"a default that has the member", catalog.Tool, property(`{"type":"object","default":{"x-mcp-header":""}}`), "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			for modern, want := range map[bool]string{false: row.legacy, true: row.modern} {
				got, problem := Fit(row.kind, []byte(row.item), modern)
				if want == "" && (problem != "" || string(got) != row.item) || want != "" && (!strings.HasPrefix(problem, want) || got != nil) {
					t.Errorf("modern %t: %q, want %q\n%s", modern, problem, want, row.item)
				}
			}
		})
	}
}

// An outputSchema that legacy revisions do not allow is removed only for their clients, and the
// rest is unchanged byte for byte.
func TestOutputSchemaForLegacyClients(t *testing.T) {
	const before, after = `{ "name":"a", "inputSchema":{"type":"object"}`, `,"title":"t"}`
	for _, output := range []string{`{"type":"array","items":{}}`, `{}`, `{"type":"object","properties":{"x":true}}`, `{"anyOf":[]}`} {
		item := before + `, "outputSchema":` + output + after
		if got, problem := Fit(catalog.Tool, []byte(item), false); problem != "" || string(got) != before+after {
			t.Errorf("legacy: %s, %q", got, problem)
		}
		if got, problem := Fit(catalog.Tool, []byte(item), true); problem != "" || string(got) != item {
			t.Errorf("modern: %s, %q", got, problem)
		}
	}
	for _, output := range []string{`true`, `null`, `"object"`, `[]`} {
		item := before + `,"outputSchema":` + output + after
		if got, problem := Fit(catalog.Tool, []byte(item), false); problem != "" || string(got) != before+after {
			t.Errorf("legacy: %s, %q", got, problem)
		}
		if _, problem := Fit(catalog.Tool, []byte(item), true); !strings.HasPrefix(problem, "/outputSchema is no object") {
			t.Errorf("modern: %q", problem)
		}
	}
}

// The official Go SDK can decode every item that Fit accepts.
func TestTheGoSDKDecodesWhatFits(t *testing.T) {
	values := []string{`null`, `0`, `1.5`, `-1`, `1e300`, `true`, `""`, `"x"`, `[]`, `["a"]`, `[1]`, `[{}]`, `{}`, `{"type":"object"}`, `{"a":1}`, `{"a":{}}`, `{"x-mcp-header":"Q","type":"string"}`}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(catalog.Kinds[:]).Draw(t, "kind")
		var item map[string]any
		if err := json.Unmarshal([]byte(whole[kind]), &item); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			mutate(t, item, values)
		}
		raw, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		for _, modern := range []bool{false, true} {
			got, problem := Fit(kind, raw, modern)
			if problem != "" {
				continue
			}
			into := map[catalog.Kind]any{catalog.Tool: &mcp.Tool{}, catalog.Prompt: &mcp.Prompt{}, catalog.Resource: &mcp.Resource{}, catalog.Template: &mcp.ResourceTemplate{}}[kind]
			if err := json.Unmarshal(got, into); err != nil {
				t.Fatalf("modern %t: %v\n%s", modern, err, got)
			}
		}
	})
}

// mutate removes or replaces one member at a random depth.
func mutate(t *rapid.T, at map[string]any, values []string) {
	for {
		names := slices.Sorted(maps.Keys(at))
		if len(names) == 0 {
			return
		}
		name := rapid.SampledFrom(names).Draw(t, "name")
		inner, isObject := at[name].(map[string]any)
		if list, ok := at[name].([]any); ok && len(list) > 0 {
			inner, isObject = list[0].(map[string]any)
		}
		if isObject && len(inner) > 0 && rapid.Bool().Draw(t, "deeper") {
			at = inner
			continue
		}
		if rapid.Bool().Draw(t, "remove") {
			delete(at, name)
			return
		}
		var v any
		if err := json.Unmarshal([]byte(rapid.SampledFrom(values).Draw(t, "value")), &v); err != nil {
			t.Fatal(err)
		}
		at[name] = v
		return
	}
}
