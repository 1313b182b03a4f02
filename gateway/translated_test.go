package gateway

//lint:file-ignore SA1019 logs and sampling are deprecated since 2026-07-28, and pass as long as clients have them

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The official Go client, in either generation, uses one upstream of each generation behind one
// gateway: it lists, calls, receives progress and logs, answers elicitation and sampling, cancels
// a call, receives list changes, and leaves no session open.
func TestGoSDKAcrossGenerations(t *testing.T) {
	for _, tt := range []struct{ client, first string }{
		{"2025-11-25", "legacy"}, {"2025-11-25", "modern"}, {"2026-07-28", "legacy"}, {"2026-07-28", "modern"},
	} {
		t.Run(tt.client+" client, "+tt.first+" default upstream", func(t *testing.T) {
			legacyClient := tt.client == "2025-11-25"
			modern, legacy := newGeneration(t, "modern", true), newGeneration(t, "legacy", false)
			config := fmt.Sprintf(`
default_upstream: %s
upstreams:
  - {name: modern, url: %s, protocol: 2026-07-28}
  - {name: legacy, url: %s}
routes:
  - {match: {tool_prefix: modern_}, upstream: modern}
  - {match: {tool_prefix: legacy_}, upstream: legacy}
policy: {default_action: allow}
`, tt.first, modern.URL, legacy.URL)
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
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
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
			if list, err := session.ListTools(ctx, nil); err != nil || len(list.Tools) != 5 || list.Tools[0].Name != tt.first+"_ask" {
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
			for i, at := range []string{"modern", "legacy"} {
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
			if asked.Load() != 4 || sampled.Load() != 2 {
				t.Errorf("asked %d times, sampled %d times", asked.Load(), sampled.Load())
			}
			for _, g := range []*generation{modern, legacy} {
				waiting, stop := context.WithCancel(ctx)
				ended := make(chan error, 1)
				name := map[*generation]string{modern: "modern_wait", legacy: "legacy_wait"}[g]
				go func() {
					_, err := session.CallTool(waiting, &sdk.CallToolParams{Name: name})
					ended <- err
				}()
				eventually(t, "the call did not arrive: "+name, func() bool { return g.waiting.Load() == 1 })
				stop()
				if err := <-ended; err == nil {
					t.Error("a cancelled call was answered")
				}
				eventually(t, "the upstream did not receive the cancellation: "+name, func() bool { return g.cancelled.Load() == 1 })
			}
			first := map[string]*generation{"modern": modern, "legacy": legacy}[tt.first]
			before, n := changed.Load(), 0
			eventually(t, "a changed list was not announced", func() bool {
				if n%50 == 0 { // the stream may still be opening
					sdk.AddTool(first.server, &sdk.Tool{Name: fmt.Sprintf("extra%d", n)}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
						return nil, nil, nil
					})
				}
				n++
				return changed.Load() > before
			})
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			if legacyClient {
				eventually(t, "a session was left", func() bool {
					for range legacy.server.Sessions() {
						return false
					}
					return true
				})
			}
		})
	}
}
