package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// newSDKServer is a real upstream: the official Go SDK.
func newSDKServer(t *testing.T, name string, options *sdk.StreamableHTTPOptions) *httptest.Server {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)
	type in struct {
		Text string `json:"text,omitempty"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "safe", Description: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, a in) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name + ": " + a.Text}}}, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "danger", Description: "never"}, func(context.Context, *sdk.CallToolRequest, in) (*sdk.CallToolResult, any, error) {
		t.Error("the denied tool ran")
		return nil, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "slow", Description: "progress"}, func(ctx context.Context, req *sdk.CallToolRequest, _ in) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			if token := req.Params.GetProgressToken(); token != nil {
				_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: 3})
			}
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
	})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, options))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

// bearer adds the key to every request.
type bearer struct{ key string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return http.DefaultTransport.RoundTrip(r)
}

// The official Go client works through the gateway in both generations of the protocol, with
// responses as JSON and as event streams: connect, list, call, progress, a denied call that
// leaves the session open, close.
func TestGoSDKThroughTheGateway(t *testing.T) {
	tests := []struct {
		name    string
		options sdk.StreamableHTTPOptions
		version string
	}{
		{"2025 session, event streams", sdk.StreamableHTTPOptions{}, "2025-11-25"},
		{"2025 session, JSON", sdk.StreamableHTTPOptions{JSONResponse: true}, "2025-11-25"},
		{"2026-07-28 stateless, event streams", sdk.StreamableHTTPOptions{Stateless: true}, "2026-07-28"},
		{"2026-07-28 stateless, JSON", sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}, "2026-07-28"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up := newSDKServer(t, "up", &tt.options)
			config := basic(up.URL)
			if !tt.options.Stateless {
				config += legacyClients
			}
			r := newRig(t, config)
			var seen atomic.Int32
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
				ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { seen.Add(1) },
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := session.InitializeResult().ProtocolVersion; got != tt.version {
				t.Errorf("protocol version %s, want %s", got, tt.version)
			}
			list, err := session.ListTools(ctx, nil)
			if err != nil || len(list.Tools) != 3 {
				t.Fatalf("list: %v, %v", list, err)
			}
			echo := func(text string) {
				t.Helper()
				got, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "safe", Arguments: map[string]any{"text": text}})
				if err != nil {
					t.Fatal(err)
				}
				if s := got.Content[0].(*sdk.TextContent).Text; s != "up: "+text {
					t.Errorf("got %q", s)
				}
			}
			echo("before")
			if _, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "danger"}); err == nil || !strings.Contains(err.Error(), "policy_denied") {
				t.Errorf("denied call: %v", err)
			}
			echo("after a denied call")
			params := &sdk.CallToolParams{Name: "slow"}
			params.SetProgressToken("p1")
			if _, err := session.CallTool(ctx, params); err != nil {
				t.Fatal(err)
			}
			// The SDK handles notifications concurrently with the response of the call.
			for i := 0; !tt.options.JSONResponse && seen.Load() != 3; i++ {
				if i == 200 {
					t.Fatalf("%d progress notifications, want 3", seen.Load())
				}
				time.Sleep(10 * time.Millisecond)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			calls := 0
			for _, line := range r.all() {
				if line["kind"] == "request" && line["method"] == "tools/call" {
					calls++
				}
			}
			if calls != 4 {
				t.Errorf("%d request lines for 4 calls", calls)
			}
		})
	}
}

// A session belongs to the principal that opened it, and outlives a restart of the gateway,
// because SDKs do not begin a new session after a 404.
func TestSessionBelongsToItsOwner(t *testing.T) {
	up := newSDKServer(t, "up", &sdk.StreamableHTTPOptions{})
	r := newRig(t, basic(up.URL))
	opened := r.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	sid := opened.header.Get("Mcp-Session-Id")
	if opened.status != 200 || sid == "" {
		t.Fatalf("initialize: %d %q %s", opened.status, sid, opened.body)
	}
	r.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Session-Id", sid)
	body := strings.Replace(call("1", "safe"), "{}", `{"text":"x"}`, 1)
	if got := r.post(body, "Mcp-Session-Id", sid); got.status != 200 {
		t.Errorf("owner: %d %s", got.status, got.body)
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		got := r.do(method, r.url, body, "Mcp-Session-Id", sid, "Authorization", "Bearer "+r.other)
		if e := got.rpc(t); got.status != 404 || e.Error.Message != "session_not_found" {
			t.Errorf("%s by another principal: %d %s", method, got.status, got.body)
		}
	}
	if got := r.do(http.MethodDelete, r.url, "", "Mcp-Session-Id", sid); got.status != 204 && got.status != 200 {
		t.Errorf("DELETE by the owner: %d %s", got.status, got.body)
	}
	got := r.post(body, "Mcp-Session-Id", sid)
	if e := got.rpc(t); got.status != 404 || string(e.ID) != "1" {
		t.Errorf("an ended session: %d %s, want 404 with the request's id", got.status, got.body)
	}
}

// With several upstreams a routed call opens a session at its upstream for the client, with the
// client's own parameters.
func TestRoutedCallOpensASessionAtItsUpstream(t *testing.T) {
	first := newSDKServer(t, "first", &sdk.StreamableHTTPOptions{})
	second := newSDKServer(t, "second", &sdk.StreamableHTTPOptions{})
	text := strings.Replace(basic(first.URL), "routes:\n", "  - name: second\n    url: "+second.URL+"\nroutes:\n  - match: {tool_name: safe}\n    upstream: second\n", 1)
	r := newRig(t, text)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, &sdk.ClientSessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "safe", Arguments: map[string]any{"text": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		if s := got.Content[0].(*sdk.TextContent).Text; s != "second: x" {
			t.Errorf("got %q", s)
		}
	}
	if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "slow"}); err != nil {
		t.Error(err)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// An initialize with a revision that is not allowed is forwarded with the newest legacy revision
// that is, so that clients which request their newest revision can connect.
func TestAllowedVersionsAndInitialize(t *testing.T) {
	up := newSDKServer(t, "up", &sdk.StreamableHTTPOptions{})
	r := newRig(t, basic(up.URL)+"allowed_protocol_versions: [2025-06-18, 2025-03-26]\n")
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if got := session.InitializeResult().ProtocolVersion; got != "2025-06-18" {
		t.Errorf("protocol version %s", got)
	}
	got := r.post(call("1", "safe"), "MCP-Protocol-Version", "2025-11-25")
	var e struct {
		Error struct {
			Data struct {
				Supported []string
				Requested string
			}
		}
	}
	if err := json.Unmarshal([]byte(got.body), &e); err != nil || got.status != 400 || len(e.Error.Data.Supported) != 2 || e.Error.Data.Requested != "2025-11-25" {
		t.Errorf("got %d %s", got.status, got.body)
	}
}
