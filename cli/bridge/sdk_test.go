package bridge

//lint:file-ignore SA1019 logs are deprecated since 2026-07-28, and pass as long as clients have them

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMain makes the test binary a bridge when BRIDGE_URL is set, so that clients can
// start it as a program.
func TestMain(m *testing.M) {
	url := os.Getenv("BRIDGE_URL")
	if url == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := Run(ctx, Options{
		URL: url, In: os.Stdin, Out: os.Stdout, Log: os.Stderr, Version: "1",
		Key: func() (string, error) { return os.Getenv("BRIDGE_KEY"), nil },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// endpoint is a server of the official SDK over Streamable HTTP.
type endpoint struct {
	*httptest.Server
	server    *sdk.Server
	handler   atomic.Pointer[sdk.StreamableHTTPHandler]
	cancelled chan struct{} // receives once for each canceled call
	waiting   chan struct{}
	deleted   chan string
	release   chan struct{}
}

func newEndpoint(t *testing.T, stateless bool) *endpoint {
	e := &endpoint{cancelled: make(chan struct{}, 8), waiting: make(chan struct{}, 8), deleted: make(chan string, 8), release: make(chan struct{})}
	e.server = sdk.NewServer(&sdk.Implementation{Name: "e", Version: "1"}, nil)
	text := func(s string) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}, nil, nil
	}
	tool := func(name string, run func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, any, error)) {
		sdk.AddTool(e.server, &sdk.Tool{Name: name}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			return run(ctx, req)
		})
	}
	tool("echo", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) { return text("hello") })
	tool("steps", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3}); err != nil {
				return nil, nil, err
			}
		}
		return text("done")
	})
	question := &sdk.ElicitParams{Message: "go on?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`)}
	tool("ask", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		if stateless {
			if got, ok := req.Params.InputResponses["q"].(*sdk.ElicitResult); ok {
				return text(got.Action)
			}
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": question}, RequestState: "s"}, nil, nil
		}
		got, err := req.Session.Elicit(ctx, question)
		if err != nil {
			return nil, nil, err
		}
		return text(got.Action)
	})
	tool("wait", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		e.waiting <- struct{}{}
		select {
		case <-ctx.Done():
			e.cancelled <- struct{}{}
		case <-e.release:
		}
		return nil, nil, ctx.Err()
	})
	e.server.AddTool(&sdk.Tool{Name: "region", InputSchema: json.RawMessage(`{"type":"object","properties":{"where":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}`)},
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			h := req.Extra.Header
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: h.Get("Mcp-Param-Region") + " " + h.Get("Mcp-Param-N")}}}, nil
		})
	e.server.AddResource(&sdk.Resource{URI: "file:///a", Name: "a"}, func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, Text: "read"}}}, nil
	})
	e.restart(stateless)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodDelete {
			e.deleted <- r.Header.Get("Mcp-Session-Id")
		}
		if stateless && r.Header.Get("Mcp-Name") == "wait" { // the SDK does not cancel the handler when a request ends
			defer context.AfterFunc(r.Context(), func() { e.cancelled <- struct{}{} })()
		}
		e.handler.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(e.release)
		e.CloseClientConnections()
		e.Close()
	})
	return e
}

// restart deletes all sessions.
func (e *endpoint) restart(stateless bool) {
	e.handler.Store(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return e.server }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
}

// connect starts a bridge as a program and connects the official client to it.
func connect(t *testing.T, url, version string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BRIDGE_URL="+url, "BRIDGE_KEY=k")
	cmd.Stderr = os.Stderr
	session, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, o).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func callText(t *testing.T, s *sdk.ClientSession, p *sdk.CallToolParams) string {
	t.Helper()
	got, err := s.CallTool(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return got.Content[0].(*sdk.TextContent).Text
}

// Through the bridge, started as a program, the official Go client can do the same as
// over HTTP, in both generations.
func TestGoClientDoesItAllOverStdio(t *testing.T) {
	for _, tt := range []struct {
		version   string
		stateless bool
	}{{"2025-06-18", false}, {"2025-11-25", false}, {"2026-07-28", true}} {
		t.Run(tt.version, func(t *testing.T) {
			e := newEndpoint(t, tt.stateless)
			progress := make(chan float64, 8)
			changed := make(chan struct{}, 8)
			s := connect(t, e.URL, tt.version, &sdk.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
				ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
				ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
				},
			})
			if got := s.InitializeResult().ProtocolVersion; got != tt.version {
				t.Fatalf("revision %s", got)
			}
			tools, err := s.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 5 {
				t.Fatalf("%+v, %v", tools, err)
			}
			if got := callText(t, s, &sdk.CallToolParams{Name: "echo"}); got != "hello" {
				t.Errorf("echo: %q", got)
			}
			p := &sdk.CallToolParams{Name: "steps"}
			p.SetProgressToken("p1")
			if got := callText(t, s, p); got != "done" {
				t.Errorf("steps: %q", got)
			}
			for want := range 3 {
				if got := <-progress; got != float64(want+1) {
					t.Errorf("progress %v", got)
				}
			}
			if got := callText(t, s, &sdk.CallToolParams{Name: "ask"}); got != "accept" {
				t.Errorf("ask: %q", got)
			}
			if r, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "file:///a"}); err != nil || r.Contents[0].Text != "read" {
				t.Errorf("resource: %+v, %v", r, err)
			}
			if tt.stateless {
				if got := callText(t, s, &sdk.CallToolParams{Name: "region", Arguments: map[string]any{"where": "zürich", "n": 7}}); got != "=?base64?esO8cmljaA==?= 7" {
					t.Errorf("header fields of arguments: %q", got)
				}
			}

			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "wait"})
				ended <- err
			}()
			<-e.waiting
			cancel()
			if err := <-ended; err == nil {
				t.Error("a canceled call succeeded")
			}
			<-e.cancelled

			sdk.AddTool(e.server, &sdk.Tool{Name: "new"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				return nil, nil, nil
			})
			<-changed

			began := time.Now()
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("the program ended after %v", took)
			}
			if !tt.stateless {
				if id := <-e.deleted; id == "" {
					t.Error("the session was ended without its id")
				}
			}
		})
	}
}

// A session that the server has lost is opened again without the client noticing.
func TestALostSessionIsOpenedAgain(t *testing.T) {
	e := newEndpoint(t, false)
	changed := make(chan struct{}, 8)
	s := connect(t, e.URL, "2025-11-25", &sdk.ClientOptions{ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} }})
	if got := callText(t, s, &sdk.CallToolParams{Name: "echo"}); got != "hello" {
		t.Fatal(got)
	}
	e.restart(false)
	if got := callText(t, s, &sdk.CallToolParams{Name: "echo"}); got != "hello" {
		t.Error(got)
	}
}

// A call whose header fields the bridge does not know yet succeeds after the bridge
// has listed the tools.
func TestHeaderFieldsOfArgumentsAreFoundOut(t *testing.T) {
	e := newEndpoint(t, true)
	s := connect(t, e.URL, "2026-07-28", nil)
	if got := callText(t, s, &sdk.CallToolParams{Name: "region", Arguments: map[string]any{"where": "eu"}}); got != "eu " {
		t.Errorf("%q", got)
	}
}
