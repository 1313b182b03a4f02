package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client that calls only listed tools finds the tools of all upstreams with the tool search and
// calls them through mcp_call, under the rules for the called tool.
func TestToolsOfAllUpstreamsAreFoundAndCalled(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprintf("stateless %v", stateless), func(t *testing.T) {
			crm := newToolServer(t, "crm", stateless, "find: Find a customer", "delete: Delete a customer", "mcp_search: Search for customers")
			web := newToolServer(t, "web", stateless, "very_long_name: Fetch a web page")
			generation := ""
			if !stateless {
				generation = legacyClients
			}
			r := newRig(t, generation+federated(fmt.Sprintf(`
  - {name: crm, url: %s}
  - {name: web, url: %s, prefix: web_, tools: {rename: {very_long_name: fetch}}}`, crm.URL, web.URL), `
tool_search: {enabled: true, mode: synthesize}
policy:
  default_action: allow
  rules:
    - {id: no-delete, action: deny, when: {tool_name: delete}}
    - {id: mask, action: redact, when: {tool_name: web_fetch}, redact: [{regex: secret, replacement: '***'}]}`))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			session := r.connect(ctx, nil)
			listed, err := session.ListTools(ctx, nil)
			if err != nil || len(listed.Tools) != 2 || listed.Tools[0].Name != "mcp_search" || listed.Tools[1].Name != "mcp_call" {
				t.Fatalf("%+v, %v", listed, err)
			}
			if a := listed.Tools[1].Annotations; a == nil || !*a.DestructiveHint || !*a.OpenWorldHint {
				t.Errorf("annotations %+v", a)
			}
			var names []string
			for _, query := range []string{"customer", "web page"} {
				found, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "mcp_search", Arguments: map[string]any{"query": query}})
				if err != nil {
					t.Fatal(err)
				}
				for _, tool := range found.StructuredContent.(map[string]any)["tools"].([]any) {
					names = append(names, fmt.Sprint(tool.(map[string]any)["name"], "@", tool.(map[string]any)["upstream"]))
				}
			}
			slices.Sort(names)
			if want := []string{"find@crm", "web_fetch@web"}; !slices.Equal(names, want) {
				t.Errorf("found %q, want %q", names, want)
			}
			call := func(arguments string) (string, error) {
				got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "mcp_call", Arguments: json.RawMessage(arguments)})
				if err != nil {
					return "", err
				}
				return got.Content[0].(*sdk.TextContent).Text, nil
			}
			for arguments, want := range map[string]string{
				`{"name":"find","arguments":{"text":"hello"}}`: "crm/find: hello",
				`{"name":"find"}`: "crm/find: ",
				`{"arguments":{"text":"a secret"},"name":"web_fetch"}`:      "web/very_long_name: a ***",
				`{"name":"find","arguments":{"text":"{\"name\":\"web\"}"}}`: `crm/find: {"name":"web"}`,
			} {
				if got, err := call(arguments); err != nil || got != want {
					t.Errorf("%s: %q, %v", arguments, got, err)
				}
			}
			for _, arguments := range []string{
				`{"name":"delete"}`, `{"name":"mcp_call","arguments":{"name":"find"}}`, `{"name":"mcp_search","arguments":{"query":"x"}}`, `{"name":"fetch"}`, `{"name":"web_very_long_name"}`,
				`{"name":"find","arguments":["x"]}`, `{"name":"find","arguments":null}`, `{"name":"find","other":1}`, `{"name":7}`, `{"name":""}`, `{}`,
			} {
				if got, err := call(arguments); err == nil {
					t.Errorf("%s is called: %q", arguments, got)
				}
			}
			var lines []string
			for _, line := range r.all() {
				if line["kind"] == "request" && line["via"] == "mcp_call" && line["tool"] == "web_fetch" || line["tool"] == "delete" {
					lines = append(lines, fmt.Sprint(line["via"], " ", line["tool"], " ", line["upstream_tool"], " ", line["rule_id"], " ", line["action"]))
				}
			}
			if want := []string{"mcp_call web_fetch very_long_name mask redact", "mcp_call delete <nil> no-delete deny"}; !slices.Equal(lines, want) && !slices.Equal(lines, []string{want[1], want[0]}) {
				t.Errorf("lines %q", lines)
			}
			if strings.Contains(r.logs.String(), "panic") {
				t.Error(r.logs.String())
			}
		})
	}
}

// The parameter headers of a client mirror the message that it sends, which is the mcp_call. A
// header that mirrors the inner call is refused, and the headers of mcp_call are not forwarded.
func TestHeadersOfACallInACall(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, federated(fmt.Sprintf(`
  - {name: up, url: %s, prefix: up_}`, up.URL), "tool_search: {enabled: true, mode: synthesize}\n"+allowEverything))
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":{"name":"up_x","arguments":{"city":"Oslo"}},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"kept":1}}}`
	head := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Param-City", "Bergen", "Mcp-Name"}
	if got := r.post(body, append(head, "up_x")...); got.status != 400 {
		t.Errorf("a header that disagrees: %d %s", got.status, got.body)
	}
	r.post(body, append(head, "mcp_call")...)
	for _, s := range up.seen() {
		if strings.Contains(s.body, "mcp_call") || strings.Contains(s.body, `"tools/call"`) && (s.header.Get("Mcp-Name") != "x" || s.header.Get("Mcp-Param-City") != "" || !strings.Contains(s.body, `"kept":1`)) {
			t.Errorf("sent %s with %v", s.body, s.header)
		}
	}
}
