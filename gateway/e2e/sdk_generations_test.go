package e2e

//lint:file-ignore SA1019 logs and sampling are deprecated since 2026-07-28, and pass as long as clients have them

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// generation is a Go SDK server of one generation with tools for each effect that a client can
// observe.
type generation struct {
	*httptest.Server
	server  *sdk.Server
	waiting atomic.Int32
	// cancelled counts the calls that were cancelled at the server: with sessions by a
	// notification, without them by the end of the HTTP request. The SDK's server does not act on
	// the latter itself.
	cancelled atomic.Int32
	release   chan struct{}
}

func newGeneration(t *testing.T, name string, stateless bool) *generation {
	g := &generation{server: sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil), release: make(chan struct{})}
	text := func(s string) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}, nil, nil
	}
	tool := func(suffix string, run func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, any, error)) {
		sdk.AddTool(g.server, &sdk.Tool{Name: name + "_" + suffix}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			return run(ctx, req)
		})
	}
	tool("echo", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) { return text(name) })
	tool("steps", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			if err := req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: fmt.Sprintf("%s step %d", name, i+1)}); err != nil {
				return nil, nil, err
			}
			if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3}); err != nil {
				return nil, nil, err
			}
		}
		return text("done")
	})
	question := &sdk.ElicitParams{Message: "may " + name + " go on?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`)}
	tool("ask", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		if stateless {
			if got, ok := req.Params.InputResponses["q"].(*sdk.ElicitResult); ok {
				return text(got.Action)
			}
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": question}, RequestState: "state of " + name}, nil, nil
		}
		got, err := req.Session.Elicit(ctx, question)
		if err != nil {
			return nil, nil, err
		}
		return text(got.Action)
	})
	prompt := &sdk.CreateMessageParams{MaxTokens: 10, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: "a word"}}}}
	tool("sample", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		if stateless {
			if got, ok := req.Params.InputResponses["s"].(*sdk.CreateMessageWithToolsResult); ok {
				return text(got.Content[0].(*sdk.TextContent).Text)
			}
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"s": prompt}}, nil, nil
		}
		got, err := req.Session.CreateMessage(ctx, prompt)
		if err != nil {
			return nil, nil, err
		}
		return text(got.Content.(*sdk.TextContent).Text)
	})
	tool("wait", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		g.waiting.Add(1)
		select {
		case <-ctx.Done():
			g.cancelled.Add(1)
		case <-g.release:
		}
		return nil, nil, ctx.Err()
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return g.server }, &sdk.StreamableHTTPOptions{Stateless: stateless})
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stateless && r.Header.Get("Mcp-Name") == name+"_wait" {
			defer context.AfterFunc(r.Context(), func() { g.cancelled.Add(1) })()
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(g.release)
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

// The official Go client, in either generation, uses all client features through one gateway with
// two upstreams, of its own generation or one of each: it connects, lists, calls, receives progress
// and logs, answers elicitation and sampling, cancels calls, receives list changes, and leaves no
// session open.
func TestGoSDKAcrossGenerations(t *testing.T) {
	t.Parallel()
	const legacy, modern = "2025-11-25", "2026-07-28"
	for _, tt := range []struct{ client, first, second string }{
		{legacy, legacy, legacy}, {modern, modern, modern},
		{legacy, legacy, modern}, {legacy, modern, legacy}, {modern, legacy, modern}, {modern, modern, legacy},
	} {
		t.Run(fmt.Sprintf("client %s, upstreams %s and %s", tt.client, tt.first, tt.second), func(t *testing.T) {
			legacyClient := tt.client == legacy
			first, second := newGeneration(t, "first", tt.first == modern), newGeneration(t, "second", tt.second == modern)
			both := []*generation{first, second}
			protocol := func(version string) string {
				if tt.first != tt.second && version == modern {
					return ", protocol: " + modern
				}
				return ""
			}
			config := fmt.Sprintf(`
default_upstream: first
upstreams:
  - {name: first, url: %s%s}
  - {name: second, url: %s%s}
routes:
  - {match: {tool_prefix: first_}, upstream: first}
  - {match: {tool_prefix: second_}, upstream: second}
policy: {default_action: allow}
`, first.URL, protocol(tt.first), second.URL, protocol(tt.second))
			if legacyClient {
				config += legacyClients
			}
			r := newRig(t, config)
			var steps, asked, sampled, changed atomic.Int32
			var mu sync.Mutex
			var logs []string
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
				ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { steps.Add(1) },
				LoggingMessageHandler: func(_ context.Context, req *sdk.LoggingMessageRequest) {
					mu.Lock()
					defer mu.Unlock()
					logs = append(logs, fmt.Sprint(req.Params.Data))
				},
				ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					asked.Add(1)
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
				},
				CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
					sampled.Add(1)
					return &sdk.CreateMessageResult{Role: "assistant", Model: "none", Content: &sdk.TextContent{Text: "word"}}, nil
				},
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed.Add(1) },
			})
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: r.url, HTTPClient: &http.Client{Transport: bearer{r.key}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := session.InitializeResult().ProtocolVersion; got != tt.client {
				t.Fatalf("protocol version %s", got)
			}
			if legacyClient {
				if err := session.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: "info"}); err != nil {
					t.Fatal(err)
				}
			}
			if list, err := session.ListTools(ctx, nil); err != nil || len(list.Tools) != 5 || list.Tools[0].Name != "first_ask" {
				t.Fatalf("list: %v, %v", list, err)
			}
			call := func(name, want string) {
				t.Helper()
				params := &sdk.CallToolParams{Name: name, Meta: sdk.Meta{}}
				if !legacyClient {
					params.Meta[sdk.MetaKeyLogLevel] = "info"
				}
				params.SetProgressToken(name)
				got, err := session.CallTool(ctx, params)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if s := got.Content[0].(*sdk.TextContent).Text; s != want {
					t.Errorf("%s answered %q, want %q", name, s, want)
				}
			}
			for i, at := range []string{"first", "second"} {
				call(at+"_echo", at)
				call(at+"_steps", "done")
				eventually(t, "progress or logs of "+at+" are missing", func() bool {
					mu.Lock()
					defer mu.Unlock()
					return int(steps.Load()) == 3*(i+1) && len(logs) == 3*(i+1) && logs[3*i+2] == at+" step 3"
				})
				call(at+"_ask", "accept")
				call(at+"_sample", "word")
				call(at+"_ask", "accept")
			}
			call("first_echo", "first")
			if asked.Load() != 4 || sampled.Load() != 2 {
				t.Errorf("asked %d times, sampled %d times", asked.Load(), sampled.Load())
			}
			for i, name := range []string{"first_wait", "second_wait"} {
				waiting, stop := context.WithCancel(ctx)
				ended := make(chan error, 1)
				go func() {
					_, err := session.CallTool(waiting, &sdk.CallToolParams{Name: name})
					ended <- err
				}()
				eventually(t, "the call did not arrive: "+name, func() bool { return both[i].waiting.Load() == 1 })
				stop()
				if err := <-ended; err == nil {
					t.Error("a cancelled call was answered")
				}
				eventually(t, "the upstream did not receive the cancellation: "+name, func() bool { return both[i].cancelled.Load() == 1 })
			}
			heard := func(g *generation) {
				t.Helper()
				before, n := changed.Load(), 0
				eventually(t, "a changed list was not announced", func() bool {
					if n%50 == 0 { // the stream may still be opening
						sdk.AddTool(g.server, &sdk.Tool{Name: fmt.Sprintf("extra%d", n)}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
							return nil, nil, nil
						})
					}
					n++
					return changed.Load() > before
				})
			}
			heard(first)
			if legacyClient && tt.second == legacy && tt.first == legacy { // the merged stream; a subscription comes from one upstream
				heard(second)
			}
			call("second_echo", "second")
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			for i, version := range []string{tt.first, tt.second} {
				if !legacyClient || version != legacy {
					continue
				}
				eventually(t, "a session was left", func() bool {
					for range both[i].server.Sessions() {
						return false
					}
					return true
				})
			}
		})
	}
}
