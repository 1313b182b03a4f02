package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// elicitor is a stateful upstream whose tool sends an elicitation, and which can notify its
// clients that its tools have changed.
func elicitor(t *testing.T, tool string) (*sdk.Server, *httptest.Server) {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: tool, Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: tool}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		answer, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "ask " + tool})
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: tool + " " + answer.Action}}}, nil, nil
	})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return server, h
}

// twoUpstreams is a configuration whose tool "safe" is at the default upstream and whose tool
// "slow" is at the second.
func twoUpstreams(first, second string) string {
	return strings.Replace(basic(first), "routes:\n", "  - name: second\n    url: "+second+"\nroutes:\n  - match: {tool_name: slow}\n    upstream: second\n", 1)
}

// legacyClients makes clients that support both generations use the one with sessions.
const legacyClients = "allowed_protocol_versions: [2025-11-25, 2025-06-18, 2025-03-26]\n"

// One client session works with two stateful upstreams: a server request from the second reaches
// the client and its answer the second; notifications of both arrive on the one standalone
// stream; DELETE ends both.
func TestSessionAcrossTwoUpstreams(t *testing.T) {
	firstServer, first := elicitor(t, "safe")
	secondServer, second := elicitor(t, "slow")
	r := newRig(t, twoUpstreams(first.URL, second.URL)+"    - {id: answers, action: allow, when: {}}\n"+legacyClients)
	var asked, changed atomic.Int32
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked.Add(1)
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed.Add(1) },
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"safe", "slow", "slow"} {
		got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		if s := got.Content[0].(*sdk.TextContent).Text; s != tool+" accept" {
			t.Errorf("%s answered %q", tool, s)
		}
	}
	if asked.Load() != 3 {
		t.Errorf("the client was asked %d times, want 3", asked.Load())
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for i := 0; !ok(); i++ {
			if i == 500 {
				t.Fatal(what)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	extra := func(s *sdk.Server, name string) {
		sdk.AddTool(s, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return nil, nil, nil
		})
	}
	// The merged stream may still be opening at either upstream: add tools until a notification
	// arrives.
	for i, s := range []*sdk.Server{firstServer, secondServer} {
		before := changed.Load()
		n := 0
		await("a tool list change did not arrive", func() bool {
			if n%50 == 0 {
				extra(s, "extra"+string(rune('a'+i))+string(rune('a'+n/50)))
			}
			n++
			return changed.Load() > before
		})
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	count := func(s *sdk.Server) (n int) {
		for range s.Sessions() {
			n++
		}
		return n
	}
	await("DELETE left a session open", func() bool { return count(firstServer) == 0 && count(secondServer) == 0 })
}

// When an upstream lost its session, the gateway opens a new one, and the call succeeds.
func TestLostUpstreamSessionIsOpenedAgain(t *testing.T) {
	first := newSDKServer(t, "first", &sdk.StreamableHTTPOptions{})
	var handler atomic.Pointer[http.Handler]
	fresh := func() {
		server := sdk.NewServer(&sdk.Implementation{Name: "second", Version: "1"}, nil)
		sdk.AddTool(server, &sdk.Tool{Name: "slow"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ok"}}}, nil, nil
		})
		var h http.Handler = sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
		handler.Store(&h)
	}
	fresh()
	second := newUpstream(t, nil)
	second.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) })
	r := newRig(t, twoUpstreams(first.URL, second.URL))
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.url, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for i := range 3 {
		if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "slow", Arguments: map[string]any{}}); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		fresh() // a restart: every session is gone
	}
}
