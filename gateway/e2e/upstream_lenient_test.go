package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// newOddServer returns a tool server of the legacy revisions that declares the capabilities, lists the
// tools and begins each JSON answer with mark.
func newOddServer(t *testing.T, capabilities, tools, mark string) *upstreamServer {
	t.Helper()
	return newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.Unmarshal([]byte(body), &m)
		if r.Method != http.MethodPost || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := map[string]string{
			"initialize": `{"protocolVersion":"2025-06-18","capabilities":` + capabilities + `,"serverInfo":{"name":"odd","version":"1"}}`,
			"tools/list": `{"tools":` + tools + `}`,
			"tools/call": `{"content":[{"type":"text","text":"done"}]}`,
		}[m.Method]
		w.Header().Set("Content-Type", "application/json")
		if result == "" {
			fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, mark, m.ID)
			return
		}
		fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"result":%s}`, mark, m.ID, result)
	})
}

// A byte order mark before a JSON answer is ignored.
func TestAnAnswerWithAByteOrderMarkIsAccepted(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "\ufeff"+`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)
	})
	r := newRig(t, basic(up.URL))
	got := r.post(call("7", "safe"))
	if got.status != 200 || !json.Valid([]byte(got.body)) || !strings.Contains(got.body, `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`) {
		t.Errorf("%d %q", got.status, got.body)
	}
	// A client's message with one is still refused: it is evaluated in the form in which it is sent on.
	if got := r.post("\ufeff" + call("8", "safe")); got.status != 400 || !strings.Contains(got.body, "byte_order_mark") {
		t.Errorf("a request: %d %s", got.status, got.body)
	}
}

// Under federation the official client sees, and can call, the tools of a server that declares no
// capabilities, marks its answers with a byte order mark and writes definitions that can be repaired.
// A name that cannot be used is logged with its remedy, a redirect with its target.
func TestToolsOfAServerWithSmallFaultsAreListed(t *testing.T) {
	odd := newOddServer(t, `{}`, `[{"name":"put","title":null,"inputSchema":{"type":"object","properties":{"value":true}}},
{"name":"get","outputSchema":null,"inputSchema":{}},{"name":"list all/orders","inputSchema":{"type":"object"}}]`, "\ufeff")
	moved := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Location", "/mcp/?token=hidden")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	r := newRig(t, legacyClients+federated(fmt.Sprintf(`
  - {name: odd, url: "%s/mcp", prefix: odd_}
  - {name: moved, url: "%s/mcp", prefix: moved_}`, odd.URL, moved.URL), allowEverything))
	session := r.connect(t.Context(), nil)
	var names []string
	eventually(t, "the tools are listed", func() bool {
		names = nil
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		return len(names) > 0
	})
	if slices.Sort(names); !slices.Equal(names, []string{"odd_get", "odd_put"}) {
		t.Errorf("tools %v", names)
	}
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "odd_put", Arguments: map[string]any{"value": 1}})
	if err != nil || len(result.Content) != 1 || result.Content[0].(*sdk.TextContent).Text != "done" {
		t.Errorf("%+v, %v", result, err)
	}
	for _, want := range []string{`fix="tools.rename of the upstream: {\"list all/orders\": list_all_orders}"`, "refused with status 307, which redirects to /mcp/?…"} {
		eventually(t, "the log has "+want, func() bool { return strings.Contains(r.logs.String(), want) })
	}
	if strings.Contains(r.logs.String(), "hidden") {
		t.Errorf("the log has the query of the redirect:\n%s", r.logs.String())
	}
}

// A request of 2026-07-28 that lacks what the revision requires is the upstream's to judge; where the
// gateway answers itself, because it federates or translates, it judges as the revision says. A
// contradiction between header and body is refused everywhere.
func TestWhatAModernRequestLacksIsJudgedByTheServer(t *testing.T) {
	legacyServer := newOddServer(t, `{"tools":{}}`, `[{"name":"safe","inputSchema":{"type":"object"}}]`, "")
	translated := newRig(t, strings.Replace(basic(legacyServer.URL), "    url: "+legacyServer.URL, "    url: "+legacyServer.URL+"\n    protocol: 2025-06-18", 1))
	direct := newRig(t, basic(newUpstream(t, echo).URL))
	federation := newRig(t, federated("  - {name: odd, url: "+legacyServer.URL+"}", allowEverything))
	const v = "2026-07-28"
	for _, tt := range []struct {
		name            string
		rig             *rig
		body            string
		version, method string
		status, code    int
	}{
		{"direct, revision in the header alone", direct, call("1", "safe"), v, "tools/call", 200, 0},
		{"direct, no Mcp-Method", direct, modern("1", "tools/call", `"name":"safe"`), v, "", 200, 0},
		{"direct, another method", direct, modern("1", "tools/call", `"name":"safe"`), v, "tools/list", 400, -32020},
		{"direct, another revision", direct, modern("1", "tools/call", `"name":"safe"`), "2025-06-18", "tools/call", 400, -32020},
		{"translated, revision in the header alone", translated, call("1", "safe"), v, "tools/call", 400, -32602},
		{"translated, no Mcp-Method", translated, modern("1", "tools/call", `"name":"safe"`), v, "", 400, -32020},
		{"federation, revision in the header alone", federation, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, v, "tools/list", 400, -32602},
		{"federation, no Mcp-Method", federation, modern("1", "tools/list", `"x":1`), v, "", 400, -32020},
	} {
		got := tt.rig.post(tt.body, "MCP-Protocol-Version", tt.version, "Mcp-Method", tt.method)
		if got.status != tt.status || tt.code != 0 && got.rpc(t).Error.Code != tt.code {
			t.Errorf("%s: %d %s", tt.name, got.status, got.body)
		}
	}
}
