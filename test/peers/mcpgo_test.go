package peers

//lint:file-ignore SA1019 what 2026-07-28 removed is what is tested here

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// asker responds to server requests.
type asker struct{ asked, sampled atomic.Int32 }

func (a *asker) Elicit(context.Context, mcpgo.ElicitationRequest) (*mcpgo.ElicitationResult, error) {
	a.asked.Add(1)
	return &mcpgo.ElicitationResult{ElicitationResponse: mcpgo.ElicitationResponse{Action: mcpgo.ElicitationResponseActionAccept, Content: map[string]any{"ok": true}}}, nil
}

func (a *asker) CreateMessage(context.Context, mcpgo.CreateMessageRequest) (*mcpgo.CreateMessageResult, error) {
	a.sampled.Add(1)
	return &mcpgo.CreateMessageResult{SamplingMessage: mcpgo.SamplingMessage{Role: mcpgo.RoleAssistant, Content: mcpgo.TextContent{Type: "text", Text: "word"}}, Model: "none"}, nil
}

// startMCPGo serves mcp-go, which supports 2026-07-28 if it has no sessions, with tools that succeed, fail,
// send one request, send two requests at once, and sample.
func startMCPGo(t *testing.T, sessions bool) string {
	s := server.NewMCPServer("go", "1", server.WithElicitation(), server.WithToolCapabilities(true))
	s.EnableSampling()
	text := mcpgo.NewToolResultText
	question := func(message string) mcpgo.ElicitationParams {
		return mcpgo.ElicitationParams{Message: message, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"ok": map[string]any{"type": "boolean"}}}}
	}
	s.AddTool(mcpgo.NewTool("echo", mcpgo.WithString("message")), func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return text("Echo: " + r.GetString("message", "")), nil
	})
	s.AddTool(mcpgo.NewTool("fail"), func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return mcpgo.NewToolResultError("it failed"), nil
	})
	s.AddTool(mcpgo.NewTool("ask"), func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		if got := server.ElicitationResponse(r.Params.InputResponses, "a"); got != nil {
			return text(string(got.Action)), nil
		}
		return server.NewInputRequestBuilder("state").Elicit("a", question("go on?")).ToolResult(), nil
	})
	s.AddTool(mcpgo.NewTool("twice"), func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		a, b := server.ElicitationResponse(r.Params.InputResponses, "a"), server.ElicitationResponse(r.Params.InputResponses, "b")
		if a != nil && b != nil {
			return text(string(a.Action) + " " + string(b.Action)), nil
		}
		return server.NewInputRequestBuilder("state").Elicit("a", question("a?")).Elicit("b", question("b?")).ToolResult(), nil
	})
	s.AddTool(mcpgo.NewTool("sample"), func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		if got := server.SamplingResponse(r.Params.InputResponses, "s"); got != nil {
			return text(fmt.Sprint(got.Role)), nil
		}
		prompt := mcpgo.CreateMessageParams{MaxTokens: 10, Messages: []mcpgo.SamplingMessage{{Role: mcpgo.RoleUser, Content: mcpgo.TextContent{Type: "text", Text: "a word"}}}}
		return server.NewInputRequestBuilder("state").Sample("s", prompt).ToolResult(), nil
	})
	up := httptest.NewServer(server.NewStreamableHTTPServer(s, server.WithStateful(sessions)))
	t.Cleanup(func() {
		up.CloseClientConnections()
		up.Close()
	})
	return up.URL + "/mcp"
}

// mcp-go clients of either generation use mcp-go servers of either generation through the gateway, with the
// same results as directly. With federation the calls after one of an invented name have them too: the client
// takes a 404 for the end of its session.
func TestMCPGoAcrossGenerations(t *testing.T) {
	ups := map[string]string{"2025-11-25": startMCPGo(t, true), "2026-07-28": startMCPGo(t, false)}
	record := func(t *testing.T, url string, legacy, invented bool) string {
		a := &asker{}
		options := []client.ClientOption{client.WithElicitationHandler(a), client.WithSamplingHandler(a)}
		var how []transport.StreamableHTTPCOption
		hello := mcpgo.InitializeRequest{}
		if legacy {
			options, how = append(options, client.WithLegacyProtocolOnly()), append(how, transport.WithContinuousListening())
			hello.Params.ProtocolVersion = "2025-11-25"
		}
		over, err := transport.NewStreamableHTTP(url, how...)
		if err != nil {
			t.Fatal(err)
		}
		c := client.NewClient(over, options...)
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := c.Start(ctx); err != nil {
			t.Fatal(err)
		}
		hello.Params.ClientInfo = mcpgo.Implementation{Name: "check", Version: "1"}
		opened, err := c.Initialize(ctx, hello)
		if err != nil {
			t.Fatal(err)
		}
		if modern := opened.ProtocolVersion == mcpgo.ProtocolVersion20260728; modern == legacy {
			t.Fatalf("the client speaks %s", opened.ProtocolVersion)
		}
		out := ""
		tools, err := c.ListTools(ctx, mcpgo.ListToolsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools.Tools {
			out += tool.Name + "\n"
		}
		names := []string{"echo", "fail", "ask", "twice", "sample", "ask", "no-such-tool"}
		if invented {
			names = append(names, "ask", "echo")
		}
		for _, name := range names {
			request := mcpgo.CallToolRequest{}
			request.Params.Name, request.Params.Arguments = name, map[string]any{"message": "hä"}
			got, err := c.CallTool(ctx, request)
			if err != nil {
				out += fmt.Sprintf("%s: error\n", name)
				continue
			}
			content, _ := mcpgo.AsTextContent(got.Content[0])
			out += fmt.Sprintf("%s: %v %s\n", name, got.IsError, content.Text)
		}
		return out + fmt.Sprintf("asked %d times, sampled %d times\n", a.asked.Load(), a.sampled.Load())
	}
	type how struct{ legacy, invented bool }
	want := map[how]string{}
	for _, invented := range []bool{false, true} {
		want[how{true, invented}], want[how{false, invented}] = record(t, ups["2025-11-25"], true, invented), record(t, ups["2026-07-28"], false, invented)
	}
	t.Logf("directly, with sessions:\n%sand in 2026-07-28:\n%s", want[how{true, true}], want[how{false, true}])
	for protocol, up := range ups {
		for _, legacy := range []bool{true, false} {
			for _, federated := range []bool{false, true} {
				t.Run(fmt.Sprintf("server of %s and sessions %v and federation %v", protocol, legacy, federated), func(t *testing.T) {
					first, routes := "default_upstream: up\n", "routes:\n  - {match: {tool_name: \"*\"}, upstream: up}\n"
					if federated {
						first, routes = "federation: {enabled: true}\n", ""
					}
					g := startGateway(t, fmt.Sprintf("%supstreams:\n  - {name: up, url: %q, protocol: %q}\n%sauth: {enabled: false}\npolicy: {default_action: allow}\n", first, up, protocol, routes))
					if got, want := record(t, g.url, legacy, federated), want[how{legacy, federated}]; got != want {
						t.Errorf("through the gateway:\n%s\nwant as directly:\n%s\n%s", got, want, g.log)
					}
					g.stop()
				})
			}
		}
	}
}
