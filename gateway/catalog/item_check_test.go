package catalog

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"svc/gateway/mcp"
)

// whole are items with every member of the schemas.
var whole = map[mcp.ListKind]string{
	mcp.Tool: `{"name":"a","title":"t","description":"d","inputSchema":{"$schema":"s","type":"object","properties":{"x":{"type":"string","x-mcp-header":"X"},
		"y":{"type":"object","properties":{"z":{"type":"integer","x-mcp-header":"Z"}}}},"required":["x"]},"outputSchema":{"type":"object","properties":{"r":{}}},
		"annotations":{"title":"t","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false},
		"icons":[{"src":"s","mimeType":"m","sizes":["1x1"],"theme":"dark"}],"execution":{"taskSupport":"optional"},"_meta":{"a":1},"unknown":[null]}`,
	mcp.Prompt:   `{"name":"a","title":"t","description":"d","arguments":[{"name":"x","title":"t","description":"d","required":true}],"icons":[],"_meta":{}}`,
	mcp.Resource: `{"uri":"u","name":"a","title":"t","description":"d","mimeType":"m","size":5,"annotations":{"audience":["user"],"priority":0.5,"lastModified":"2026-02-28T23:59:59.123+01:00"}}`,
	mcp.Template: `{"uriTemplate":"u{x}","name":"a","title":"t","description":"d","mimeType":"m","annotations":{"audience":["assistant"],"priority":1}}`,
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
	in := func(kind mcp.ListKind, old, new string) string {
		t.Helper()
		from := tool
		if kind != mcp.Tool {
			from = whole[kind]
		}
		if !strings.Contains(from, old) {
			t.Fatalf("%s has no %s", from, old)
		}
		return strings.Replace(from, old, new, 1)
	}
	property := func(schema string) string { return in(mcp.Tool, `{"type":"string"}`, schema) }
	for _, row := range []struct {
		name           string
		kind           mcp.ListKind
		item           string
		legacy, modern string // the beginning of the problem
	}{
		{"no object", mcp.Tool, `["name"]`, "the item is no object", "the item is no object"},
		{"no name", mcp.Tool, in(mcp.Tool, `"name":"a",`, ""), "/name is missing", "/name is missing"},
		{"a name that is null", mcp.Tool, in(mcp.Tool, `"name":"a"`, `"name":null`), "/name is no string", "/name is no string"},
		{"an inputSchema that is null", mcp.Tool, `{"name":"a","inputSchema":null}`, "/inputSchema is no object", "/inputSchema is no object"},
		{"a property that is a list", mcp.Tool, property("[]"), "/inputSchema/properties/x is no object", ""},
		{"no inputSchema", mcp.Tool, `{"name":"a"}`, "/inputSchema is missing", "/inputSchema is missing"},
		{"inputSchema of another type", mcp.Tool, in(mcp.Tool, `"object"`, `"string"`), "/inputSchema/type is none of", "/inputSchema/type is none of"},
		{"required that is a boolean", mcp.Tool, in(mcp.Tool, `"properties"`, `"required":true,"properties"`), "/inputSchema/required is no array", ""},
		{"an icon without src", mcp.Tool, in(mcp.Tool, `{"name"`, `{"icons":[{"src":"x"},{}],"name"`), "/icons/1/src is missing", "/icons/1/src is missing"},
		{"a hint that is a string", mcp.Tool, in(mcp.Tool, `{"name"`, `{"annotations":{"readOnlyHint":"yes"},"name"`), "/annotations/readOnlyHint", "/annotations/readOnlyHint"},
		{"execution in another form", mcp.Tool, in(mcp.Tool, `{"name"`, `{"execution":{"taskSupport":"no"},"name"`), "/execution/taskSupport is none of", ""},
		{"_meta that is a list", mcp.Prompt, in(mcp.Prompt, `"_meta":{}`, `"_meta":[]`), "/_meta is no object", "/_meta is no object"},
		{"an argument without a name", mcp.Prompt, in(mcp.Prompt, `"name":"x",`, ""), "/arguments/0/name is missing", "/arguments/0/name is missing"},
		{"a size that is a fraction", mcp.Resource, in(mcp.Resource, `"size":5`, `"size":5.5`), "/size", "/size"},
		{"a size beyond 53 bits", mcp.Resource, in(mcp.Resource, `"size":5`, `"size":9007199254740994`), "/size", "/size"},
		{"a priority over 1", mcp.Resource, in(mcp.Resource, "0.5", "1.5"), "/annotations/priority", "/annotations/priority"},
		{"an audience that is unknown", mcp.Resource, in(mcp.Resource, `"user"`, `"model"`), "/annotations/audience/0", "/annotations/audience/0"},
		{"a time without an offset", mcp.Resource, in(mcp.Resource, "+01:00", ""), "/annotations/lastModified", "/annotations/lastModified"},
		{"a day that does not exist", mcp.Resource, in(mcp.Resource, "02-28", "02-30"), "/annotations/lastModified", "/annotations/lastModified"},
		{"an offset of 24 hours", mcp.Resource, in(mcp.Resource, "+01:00", "+24:00"), "/annotations/lastModified", "/annotations/lastModified"},
		{"a resource without uri", mcp.Resource, in(mcp.Resource, `"uri":"u",`, ""), "/uri is missing", "/uri is missing"},
		{"a template without uriTemplate", mcp.Template, in(mcp.Template, `"uriTemplate"`, `"uritemplate"`), "/uriTemplate is missing", "/uriTemplate is missing"},

		{"a header that is empty", mcp.Tool, property(`{"type":"string","x-mcp-header":""}`), "", "/inputSchema/properties/x/x-mcp-header is no token"},
		{"a header that is no string", mcp.Tool, property(`{"type":"string","x-mcp-header":true}`), "", "/inputSchema/properties/x/x-mcp-header is no token"},
		{"a header with a space", mcp.Tool, property(`{"type":"string","x-mcp-header":"a b"}`), "", "/inputSchema/properties/x/x-mcp-header is no token"},
		{"a header on a number", mcp.Tool, property(`{"type":"number","x-mcp-header":"A"}`), "", "/inputSchema/properties/x/x-mcp-header is on a property"},
		{"a header on a property of two types", mcp.Tool, property(`{"type":["string","null"],"x-mcp-header":"A"}`), "", "/inputSchema/properties/x/x-mcp-header is on a property"},
		{"a header on the whole schema", mcp.Tool, in(mcp.Tool, `"properties"`, `"x-mcp-header":"A","properties"`), "", "/inputSchema/x-mcp-header is not on a property"},
		{"a header below items", mcp.Tool, property(`{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`), "", "/inputSchema/properties/x/items/x-mcp-header is not on a property"},
		{"a header below anyOf", mcp.Tool, property(`{"anyOf":[{},{"properties":{"y":{"type":"string","x-mcp-header":"A"}}}]}`), "", "/inputSchema/properties/x/anyOf/1/properties/y/x-mcp-header is not on a property"},
		{"a header in $defs", mcp.Tool, in(mcp.Tool, `"properties"`, `"$defs":{"d":{"type":"string","x-mcp-header":"A"}},"properties"`), "", "/inputSchema/$defs/d/x-mcp-header is not on a property"},
		{"a header twice", mcp.Tool, property(`{"type":"string","x-mcp-header":"A"},"z":{"type":"string","x-mcp-header":"a"}`), "", "/inputSchema/properties/z/x-mcp-header names the header"},
		{"a property called x-mcp-header", mcp.Tool, in(mcp.Tool, `"x":`, `"x-mcp-header":`), "", ""},
		{"a default that has the member", mcp.Tool, property(`{"type":"object","default":{"x-mcp-header":""}}`), "", ""},
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

// Faults with one possible meaning do not hide an item: boolean schemas of properties, as
// generators for Go write any, optional members that are null, as serializers of structs write
// them, and an inputSchema without a type. The other members keep their bytes and order.
func TestRepairedItems(t *testing.T) {
	for _, row := range []struct {
		name      string
		kind      mcp.ListKind
		raw, want string
	}{
		{"a property that is true", mcp.Tool, `{"name":"put","inputSchema":{"type":"object", "properties":{"key":{"type":"string", "maxLength":1e1},"val/ue":true},"required":["key"]}}`,
			`{"name":"put","inputSchema":{"type":"object","properties":{"key":{"type":"string","maxLength":1e1},"val/ue":{}},"required":["key"]}}`},
		{"a property that is false", mcp.Tool, `{"name":"put","inputSchema":{"type":"object","properties":{"old":false}}}`,
			`{"name":"put","inputSchema":{"type":"object","properties":{"old":{"not":{}}}}}`},
		{"a property of outputSchema that is true", mcp.Tool, `{"name":"get","outputSchema":{"type":"object","properties":{"value":true}},"inputSchema":{"type":"object"}}`,
			`{"name":"get","outputSchema":{"type":"object","properties":{"value":{}}},"inputSchema":{"type":"object"}}`},
		{"optional members that are null", mcp.Tool, `{"name":"get","title":null,"description":null,"outputSchema":null,"annotations":{"readOnlyHint":null,"title":"T"},"icons":null,"execution":null,"_meta":null,"inputSchema":{"type":"object","properties":null,"required":null,"$schema":null,"extra":null}}`,
			`{"name":"get","annotations":{"title":"T"},"inputSchema":{"type":"object","extra":null}}`},
		{"no type of inputSchema", mcp.Tool, `{"name":"list","inputSchema":{}}`, `{"name":"list","inputSchema":{"type":"object"}}`},
		{"no type beside properties", mcp.Tool, `{"name":"list","inputSchema":{"properties":{"a":{"type":"string"}}}}`, `{"name":"list","inputSchema":{"properties":{"a":{"type":"string"}},"type":"object"}}`},
		{"a type that is null", mcp.Tool, `{"name":"list","inputSchema":{"type":null}}`, `{"name":"list","inputSchema":{"type":"object"}}`},
		{"null in the arguments of a prompt", mcp.Prompt, `{"name":"ask","arguments":[{"name":"a"},{"name":"b","description":null,"required":null}]}`, `{"name":"ask","arguments":[{"name":"a"},{"name":"b"}]}`},
		{"null members of a resource", mcp.Resource, `{"uri":"u","name":"a","mimeType":null,"size":null,"annotations":{"audience":null}}`, `{"uri":"u","name":"a","annotations":{}}`},
		{"null members of a template", mcp.Template, `{"uriTemplate":"u{x}","name":"a","title":null}`, `{"uriTemplate":"u{x}","name":"a"}`},
	} {
		for _, modern := range []bool{false, true} {
			got, problem := Fit(row.kind, []byte(row.raw), modern)
			if problem != "" || string(got) != row.want {
				t.Errorf("%s, modern %t: %s\n%s, want\n%s", row.name, modern, problem, got, row.want)
			}
		}
	}
}

// A tool whose name clients do not accept has a remedy: the setting that renames it.
func TestRemedyForNames(t *testing.T) {
	names, err := NewNames([]Naming{{Upstream: "shop", Prefix: "shop_"}})
	if err != nil {
		t.Fatal(err)
	}
	c := Build(names, memoryOwners(t), nil, []Listing{{Upstream: "shop", Items: [mcp.NumListKinds][][]byte{mcp.Tool: {
		[]byte(`{"name":"orders/list","inputSchema":{"type":"object"}}`), []byte(`{"name":"show all orders","inputSchema":{"type":"object"}}`),
		[]byte(`{"name":"取消订单","inputSchema":{"type":"object"}}`), []byte(`{"name":"plain","inputSchema":{"type":"object"}}`),
		[]byte(`{"name":"plain","inputSchema":{"type":"object"}}`)}}}})
	want := map[string]string{
		"orders/list":     `tools.rename of the upstream: {"orders/list": orders_list}`,
		"show all orders": `tools.rename of the upstream: {"show all orders": show_all_orders}`,
		"取消订单":            `tools.rename of the upstream: {"取消订单": another_name}`,
		"plain":           "", // listed twice
	}
	if len(c.LeftOut()) != len(want) {
		t.Errorf("left out: %+v", c.LeftOut())
	}
	for _, left := range c.LeftOut() {
		if got := left.Remedy(); got != want[left.Own] {
			t.Errorf("%s: %q, want %q", left.Own, got, want[left.Own])
		}
	}
}

// An outputSchema that legacy revisions do not allow is removed only for their clients, and the
// rest is unchanged byte for byte.
func TestOutputSchemaForLegacyClients(t *testing.T) {
	const before, after = `{ "name":"a", "inputSchema":{"type":"object"}`, `,"title":"t"}`
	for _, output := range []string{`{"type":"array","items":{}}`, `{}`, `{"type":"object","properties":{"x":[]}}`, `{"anyOf":[]}`} {
		item := before + `, "outputSchema":` + output + after
		if got, problem := Fit(mcp.Tool, []byte(item), false); problem != "" || string(got) != before+after {
			t.Errorf("legacy: %s, %q", got, problem)
		}
		if got, problem := Fit(mcp.Tool, []byte(item), true); problem != "" || string(got) != item {
			t.Errorf("modern: %s, %q", got, problem)
		}
	}
	for _, output := range []string{`true`, `"object"`, `[]`} {
		item := before + `,"outputSchema":` + output + after
		if got, problem := Fit(mcp.Tool, []byte(item), false); problem != "" || string(got) != before+after {
			t.Errorf("legacy: %s, %q", got, problem)
		}
		if _, problem := Fit(mcp.Tool, []byte(item), true); !strings.HasPrefix(problem, "/outputSchema is no object") {
			t.Errorf("modern: %q", problem)
		}
	}
}

// The official Go SDK, which has no skills, can decode every item that Fit accepts.
func TestTheGoSDKDecodesWhatFits(t *testing.T) {
	values := []string{`null`, `0`, `1.5`, `-1`, `1e300`, `true`, `""`, `"x"`, `[]`, `["a"]`, `[1]`, `[{}]`, `{}`, `{"type":"object"}`, `{"a":1}`, `{"a":{}}`, `{"x-mcp-header":"Q","type":"string"}`}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(mcp.ListKinds[:mcp.Skill]).Draw(t, "kind")
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
			into := map[mcp.ListKind]any{mcp.Tool: &sdk.Tool{}, mcp.Prompt: &sdk.Prompt{}, mcp.Resource: &sdk.Resource{}, mcp.Template: &sdk.ResourceTemplate{}}[kind]
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
