package search

import (
	"encoding/json"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

// The kept parts of definitions, and the definitions that are omitted.
func TestDefinitions(t *testing.T) {
	tool, err := parseTool("up", []byte(`{"name":"send","title":"T\u202e","description":"d\u200b\u001b","inputSchema":{"type":"object", "properties":{"to":{"type":"string","description":"who\ue000m","maximum":1e400},"list":{"type":"array","items":{"type":"object","properties":{"inner":{"description":"deep"}}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if tool.Title != "T" || tool.Description != "d" {
		t.Errorf("got %q %q", tool.Title, tool.Description)
	}
	if want := `{"type":"object","properties":{"to":{"type":"string","description":"whom","maximum":1e400},"list":{"type":"array","items":{"type":"object","properties":{"inner":{"description":"deep"}}}}}}`; string(tool.InputSchema) != want {
		t.Errorf("schema %s", tool.InputSchema)
	}
	if len(tool.params) != 3 || tool.params[0].name != "list" || tool.params[1].name != "inner" || tool.params[2].description != "whom" {
		t.Errorf("parameters %+v", tool.params)
	}
	for _, bad := range []string{
		`{}`, `[]`, `{"name":7}`, `{"name":""}`, `{"name":"a\u0000b"}`, `{"name":"a\u202eb"}`,
		`{"name":"` + strings.Repeat("a", 1025) + `"}`,
		`{"name":"a","inputSchema":[]}`,
		`{"name":"a","inputSchema":{"properties":{"p\u200b":{}}}}`,
		`{"name":"a","description":"` + strings.Repeat("x", maxDefinition) + `"}`,
	} {
		if tool, err := parseTool("up", []byte(bad)); err == nil {
			t.Errorf("%.60s was taken: %+v", bad, tool)
		}
	}
}

// The hash of a definition does not depend on its spelling, and changes with its
// content.
func TestDigestOfADefinition(t *testing.T) {
	of := func(raw string) [32]byte {
		tool, err := parseTool("up", []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return tool.digest
	}
	base := of(`{"name":"a","description":"d","inputSchema":{"type":"object","properties":{"p":{},"q":{}}}}`)
	if of(`{"inputSchema":{"properties":{"q":{}, "p":{}},"type":"object"},"description":"\u0064","name":"a","_meta":{"n":1}}`) != base {
		t.Error("the order of members, escapes or _meta changed it")
	}
	for _, changed := range []string{
		`{"name":"a","description":"d\u200b","inputSchema":{"type":"object","properties":{"p":{},"q":{}}}}`,
		`{"name":"a","description":"d","inputSchema":{"type":"object","properties":{"p":{"default":1},"q":{}}}}`,
		`{"name":"a","description":"d","inputSchema":{"type":"object","properties":{"p":{},"q":{}}},"annotations":{"readOnlyHint":true}}`,
	} {
		if of(changed) == base {
			t.Errorf("not noticed: %s", changed)
		}
	}
}

func FuzzDefinition(f *testing.F) {
	f.Add(`{"name":"a","description":"\u202e","inputSchema":{"properties":{"x":{"description":"\ud83d\ude00"}}}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		var m mcp.Message
		if mcp.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[`+raw+`]}}`), &m) != nil {
			return // lists are scanned before their definitions are parsed
		}
		tool, err := parseTool("up", []byte(raw))
		if err != nil {
			return
		}
		if !json.Valid(tool.InputSchema) {
			t.Fatalf("schema is not JSON: %s", tool.InputSchema)
		}
		var schema any
		if json.Unmarshal(tool.InputSchema, &schema) == nil {
			again, _ := json.Marshal(schema)
			if s := string(again); strings.ContainsAny(s, "\u202e\u200b\u2066") {
				t.Fatalf("hidden characters are left: %q", s)
			}
		}
	})
}
