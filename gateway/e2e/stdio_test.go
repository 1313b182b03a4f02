package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdioServer makes the test binary a tool server of the official SDK on stdio.
const stdioServer = "sdk-server-on-stdio"

func serveStdio(name string) int {
	if strings.HasPrefix(name, pages) {
		if pageServer(name).Run(context.Background(), &sdk.StdioTransport{}) != nil {
			return 1
		}
		return 0
	}
	if skills, ok := strings.CutPrefix(name, skillPrograms); ok {
		if server, err := skillsServer(skills); err != nil || server.Run(context.Background(), &sdk.StdioTransport{}) != nil {
			return 1
		}
		return 0
	}
	server := sdk.NewServer(&sdk.Implementation{Name: name, Version: "1"}, nil)
	type in struct {
		Text string `json:"text,omitempty"`
	}
	text := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}
	sdk.AddTool(server, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, a in) (*sdk.CallToolResult, any, error) {
		return text(name + ": " + a.Text), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "pid"}, func(context.Context, *sdk.CallToolRequest, in) (*sdk.CallToolResult, any, error) {
		return text(fmt.Sprint(os.Getpid())), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, in) (*sdk.CallToolResult, any, error) {
		fmt.Fprintln(os.Stderr, "it fails on purpose")
		os.Exit(9)
		return nil, nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "read"}, func(_ context.Context, _ *sdk.CallToolRequest, a in) (*sdk.CallToolResult, any, error) {
		data, err := os.ReadFile(a.Text)
		return text(fmt.Sprint(string(data), err)), nil, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "work"}, func(ctx context.Context, req *sdk.CallToolRequest, _ in) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			if token := req.Params.GetProgressToken(); token != nil {
				_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: 3})
			}
		}
		answer, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "go on?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		if err != nil {
			return text("not asked"), nil, nil
		}
		return text(answer.Action), nil, nil
	})
	if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// stdioUpstream is the configuration of such a server.
func stdioUpstream(name, rest string) string {
	return fmt.Sprintf("  - {name: %s, command: [%q, %s, %s]%s}\n", name, os.Args[0], stdioServer, name, rest)
}

// The official client uses servers of the official SDK on stdio, alone, with routes and with
// federation.
func TestProgramsAsUpstreams(t *testing.T) {
	t.Parallel()
	web := newSDKServer(t, "web", &sdk.StreamableHTTPOptions{})
	routed := "\nroutes: [{match: {tool_name_in: [echo, work, pid, read, fail]}, upstream: files}]\n" + allowEverything + "\nupstreams:\n" + stdioUpstream("files", "")
	both := stdioUpstream("files", ", prefix: files_") + stdioUpstream("notes", ", prefix: notes_, sharing: principal")
	for name, tt := range map[string]struct {
		text, prefix string
		stateless    bool
	}{
		"one":                    {"default_upstream: files" + routed, "", true},
		"one, sessions":          {"allowed_protocol_versions: ['2025-11-25']\ndefault_upstream: files" + routed, "", false},
		"routes":                 {"default_upstream: web" + routed + "  - {name: web, url: " + web.URL + "}\n", "", true},
		"federation":             {federated(both, allowEverything), "files_", true},
		"federation of sessions": {"allowed_protocol_versions: ['2025-11-25']" + federated(both, allowEverything), "files_", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.text)
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			var progress atomic.Int32
			options := &sdk.ClientOptions{
				ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { progress.Add(1) },
				ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
				},
			}
			session := r.connect(ctx, options)
			call := func(s *sdk.ClientSession, tool, text string) (string, error) {
				p := &sdk.CallToolParams{Name: tt.prefix + tool, Arguments: map[string]any{"text": text}}
				p.SetProgressToken("token")
				got, err := s.CallTool(ctx, p)
				if err != nil {
					return "", err
				}
				return got.Content[0].(*sdk.TextContent).Text, nil
			}
			if got, err := call(session, "echo", "hello"); err != nil || got != "files: hello" {
				t.Fatalf("%q, %v\n%s", got, err, r.logs)
			}
			// Without a session server requests are not possible, and each caller has one
			// process.
			want := map[bool]string{true: "not asked", false: "accept"}[tt.stateless]
			if got, err := call(session, "work", ""); err != nil || got != want {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
			eventually(t, "progress", func() bool { return progress.Load() == 3 })
			first, _ := call(session, "pid", "")
			if second, err := call(r.connect(ctx, options), "pid", ""); err != nil || (second == first) != tt.stateless {
				t.Errorf("two sessions are in processes %s and %s, %v", first, second, err)
			}
			if tt.prefix != "" {
				listed, err := session.ListTools(ctx, nil)
				var names []string
				for _, tool := range listed.Tools {
					names = append(names, tool.Name)
				}
				if err != nil || len(names) != 10 || !slices.Contains(names, "notes_echo") {
					t.Errorf("%v, %v", names, err)
				}
			}
			// The process gets none of the gateway's open files, and the response to a call
			// during a crash has its cause.
			for _, path := range []string{r.auditPath(), r.dir + "/license.jwt"} {
				if got, _ := call(session, "read", path); !strings.Contains(got, "permission denied") {
					t.Errorf("%s: %q", path, got)
				}
			}
			if _, err := call(session, "fail", ""); err == nil || !strings.Contains(err.Error(), http.StatusText(http.StatusBadGateway)) {
				t.Errorf("the crash is %v", err)
			}
			if !slices.ContainsFunc(r.all(), func(l map[string]any) bool {
				return l["error_kind"] == "upstream_exited" && l["tool"] == tt.prefix+"fail"
			}) {
				t.Errorf("no audit line has upstream_exited")
			}
		})
	}
}
