package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The answers to a client of 2025 at the gateway's own endpoint are those of a server on the
// official Go SDK: the same status, and the same error code where the SDK sends a JSON-RPC error,
// except where docs/federation.md says why not.
func TestOwnAnswersAreThoseOfTheGoSDK(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "one", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "a", InputSchema: map[string]any{"type": "object"}}, nil)
	server.AddPrompt(&sdk.Prompt{Name: "p"}, nil)
	server.AddResource(&sdk.Resource{Name: "r", URI: "a://r"}, nil)
	direct := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(direct.Close)
	r := newRig(t, federated("  - {name: one, url: "+direct.URL+"}", allowEverything))
	page, err := os.ReadFile("../../docs/federation.md")
	if err != nil {
		t.Fatal(err)
	}
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	both := []string{"Accept", "application/json, text/event-stream"}
	for _, tt := range []struct {
		name, method, body string
		session            bool
		header             []string
		documented         bool // a difference that the page has
	}{
		{"GET without Mcp-Session-Id", "GET", "", false, []string{"Accept", "text/event-stream"}, false},
		{"DELETE without Mcp-Session-Id", "DELETE", "", false, nil, false},
		{"ping", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, true, both, false},
		{"request without Mcp-Session-Id", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, false, both, false},
		{"unknown session", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, false, append([]string{"Mcp-Session-Id", "nobody"}, both...), false},
		{"unknown tool", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, true, both, false},
		{"unknown prompt", "POST", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}`, true, both, false},
		{"unknown resource", "POST", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a://x"}}`, true, both, false},
		{"POST of an unknown method, in a session", "POST", `{"jsonrpc":"2.0","id":1,"method":"vendor/x"}`, true, both, true},
		{"POST of `tasks/get` where no server has tasks", "POST", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x"}}`, true, both, true},
		{"a revision that does not exist", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, true, append([]string{"MCP-Protocol-Version", "1998-02-03"}, both...), false},
		{"a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, true, both, false},
		{"an answer to no question", "POST", `{"jsonrpc":"2.0","id":7,"result":{}}`, true, both, false},
		{"a batch", "POST", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, true, both, false},
		{"no JSON", "POST", `{`, true, both, false},
		{"no body", "POST", ``, true, both, false},
		{"POST without `Accept`", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, true, nil, true},
		{"GET without `Accept`", "GET", ``, true, nil, true},
		{"another Content-Type", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, true, append([]string{"Content-Type", "text/plain"}, both...), false},
		{"PUT", "PUT", `{}`, true, both, false},
		{"initialize with a revision that does not exist", "POST", fmt.Sprintf(hello, "1998-02-03"), false, both, false},
		{"GET with a `Last-Event-ID` that the gateway did not issue", "GET", ``, true, []string{"Accept", "text/event-stream", "Last-Event-ID", "9"}, true},
		{"DELETE of a session", "DELETE", ``, true, nil, false},
	} {
		ask := func(url string) string {
			header := tt.header
			if tt.session {
				opened := r.do("POST", url, fmt.Sprintf(hello, "2025-11-25"), append([]string{"Accept", "application/json, text/event-stream"}, "Content-Type", "application/json")...)
				header = append([]string{"Mcp-Session-Id", opened.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}, header...)
			}
			req, _ := http.NewRequestWithContext(t.Context(), tt.method, url, strings.NewReader(tt.body))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+r.key)
			for i := 0; i < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode == 200 && tt.method == "GET" {
				return "200 stream"
			}
			text, _ := io.ReadAll(resp.Body)
			if _, data, ok := strings.Cut(string(text), "data: "); ok {
				text = []byte(strings.TrimSpace(data))
			}
			var m struct{ Error *struct{ Code int } }
			switch {
			case len(text) == 0:
				return fmt.Sprint(resp.StatusCode)
			case json.Unmarshal(text, &m) != nil:
				return fmt.Sprintf("%d text", resp.StatusCode)
			case m.Error != nil:
				return fmt.Sprintf("%d %d", resp.StatusCode, m.Error.Code)
			}
			return fmt.Sprintf("%d result", resp.StatusCode)
		}
		want, got := ask(direct.URL), ask(r.url)
		// The SDK refuses in plain text; the gateway always with a JSON-RPC error.
		status, isText := strings.CutSuffix(want, " text")
		same := got == want || isText && strings.HasPrefix(got, status+" -32")
		if same == tt.documented || tt.documented != strings.Contains(string(page), "| "+tt.name+" |") {
			t.Errorf("%s: %s, the SDK's server %s; documented as different: %v", tt.name, got, want, tt.documented)
		}
	}
}
