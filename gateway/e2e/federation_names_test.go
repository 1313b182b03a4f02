package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Without federation the upstreams have prefixes, renamed and hidden tools too: in the lists of
// default_upstream, which come as one message or in an event stream, and in routed calls.
func TestNamesWithoutFederation(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprintf("stateless %v", stateless), func(t *testing.T) {
			main := newToolServer(t, "main", stateless, "search: Search", "very_long_name: Open", "admin_stop: Stop", "open: Not seen", "web_x: Of the other", "o\u00fcter: No name")
			web := newToolServer(t, "web", stateless, "search: Search the web")
			main.offer("main")
			generation := ""
			if !stateless {
				generation = legacyClients
			}
			r := newRig(t, generation+fmt.Sprintf(`
default_upstream: main
upstreams:
  - {name: main, url: %s, tools: {deny: ["admin_*"], rename: {very_long_name: open}}}
  - {name: web, url: %s, prefix: web_}
  - {name: third, url: %[2]s, prefix: third_}
routes:
  - {match: {tool_prefix: web_}, upstream: web}
  - {match: {tool_name: astray}, upstream: web}
  - {match: {tool_name: "*"}, upstream: main}
policy:
  default_action: allow
  rules:
    - {id: no-web, action: deny, when: {tool_name: web_denied}}
    - {id: mask, action: redact, when: {tool_name: open}, redact: [{regex: secret, replacement: '***'}]}`, main.URL, web.URL))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			session := r.connect(ctx, nil)
			if got := visibleItems(ctx, t, session); got != [4]string{"search open", "greet", "main://index", "main://doc/{id}"} {
				t.Errorf("listed %q", got)
			}
			for tool, want := range map[string]string{"search": "main/search: a secret", "open": "main/very_long_name: a ***", "web_search": "web/search: a secret"} {
				got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"text": "a secret"}})
				if err != nil || got.Content[0].(*sdk.TextContent).Text != want {
					t.Errorf("%s: %+v, %v, want %q", tool, got, err, want)
				}
			}
			for _, tool := range []string{"very_long_name", "admin_stop", "astray", "web_very_long_name", "third_search", "web_x"} {
				if got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool}); err == nil && !got.IsError {
					t.Errorf("%s can be called: %+v", tool, got)
				}
			}
			if err := useItem(ctx, session, "prompt greet"); err != nil {
				t.Error(err)
			}
			var lines []string
			for _, line := range r.all() {
				if line["kind"] == "request" && line["tool"] == "open" || line["tool"] == "astray" {
					lines = append(lines, fmt.Sprint(line["tool"], " ", line["upstream"], " ", line["upstream_tool"], " ", line["status"]))
				}
			}
			if want := []string{"astray <nil> <nil> 404", "open main very_long_name 200"}; !slices.Equal(slices.Sorted(slices.Values(lines)), want) {
				t.Errorf("lines %q, want %q", lines, want)
			}
		})
	}
}

// default_upstream's prefix applies to its prompts too, and the tool search uses the names that
// clients see.
func TestTheSearchKnowsVisibleNames(t *testing.T) {
	main, web := newToolServer(t, "main", true, "search: Search the shop", "hidden: Search in secret"), newToolServer(t, "web", true, "search: Search the web")
	main.offer("main")
	r := newRig(t, fmt.Sprintf(`
default_upstream: main
upstreams:
  - {name: main, url: %s, prefix: shop_, tools: {deny: [hidden]}}
  - {name: web, url: %s, prefix: web_, tools: {rename: {search: find}}}
routes:
  - {match: {tool_prefix: shop_}, upstream: main}
  - {match: {tool_prefix: web_}, upstream: web}
tool_search: {enabled: true, mode: synthesize, call: true}
%s`, main.URL, web.URL, allowEverything))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	session := r.connect(ctx, nil)
	if got := visibleItems(ctx, t, session); got[0] != "mcp_search mcp_call" || got[1] != "shop_greet" {
		t.Errorf("listed %q", got)
	}
	found, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "mcp_search", Arguments: map[string]any{"query": "search"}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range found.StructuredContent.(map[string]any)["tools"].([]any) {
		names = append(names, fmt.Sprint(tool.(map[string]any)["name"]))
	}
	if slices.Sort(names); !slices.Equal(names, []string{"shop_search", "web_find"}) {
		t.Errorf("found %q", names)
	}
	got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "mcp_call", Arguments: map[string]any{"name": "web_find", "arguments": map[string]any{"text": "x"}}})
	if err != nil || got.Content[0].(*sdk.TextContent).Text != "web/search: x" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, use := range []string{"prompt greet", "call shop_hidden", "call web_search"} {
		if err := useItem(ctx, session, use); err == nil {
			t.Errorf("%s works", use)
		}
	}
	if err := useItem(ctx, session, "prompt shop_greet"); err != nil {
		t.Error(err)
	}
}

// A list that parsers can read in two ways is refused. A list on a resumed stream, whose request
// is not known, has the names that clients see.
func TestListsThatEvadeNames(t *testing.T) {
	answer := ""
	up := newUpstream(t, func(w http.ResponseWriter, body string, req *http.Request) {
		if req.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "id: 9\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}\n\n", answer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "s")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, answer)
	})
	r := newRig(t, legacyClients+fmt.Sprintf(`
default_upstream: main
upstreams: [{name: main, url: %s, prefix: p_, tools: {deny: [hidden]}}]
%s`, up.URL, allowEverything))
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for text, want := range map[string]string{
		`{"tools":[{"name":"hidden"},{"name":"a"}]}`:              `{"tools":[{"name":"p_a"}]}`,
		`{"tools":[ {"x":1,"name":"hidd\u0065n"} , 7, {}, "s" ]}`: `{"tools":[]}`,
		`{"tools":[{"name":"a"}],"Tools":[{"name":"hidden"}]}`:    "",
		`{"tools":{"name":"hidden"}}`:                             "",
		`{"prompts":[{"name":"a"}]}`:                              `{"prompts":[{"name":"a"}]}`, // no known request
	} {
		answer = text
		got := r.post(list)
		if want == "" && (got.status != 502 || strings.Contains(got.body, "hidden")) || want != "" && !strings.Contains(got.body, `"result":`+want) {
			t.Errorf("%s: %d %s, want %s", text, got.status, got.body, want)
		}
	}
	answer = `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"u","version":"1"}}`
	opened := r.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	session := opened.header.Get("Mcp-Session-Id")
	answer = `{"tools":[{"name":"hidden"},{"name":"a"}],"prompts":[{"name":"b"}]}`
	got := r.do(http.MethodGet, r.url, "", "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-06-18", "Accept", "text/event-stream", "Last-Event-ID", "3")
	if !strings.Contains(got.body, `"p_a"`) || !strings.Contains(got.body, `"p_b"`) || strings.Contains(got.body, "hidden") {
		t.Errorf("resumed: %d %s", got.status, got.body)
	}
}
