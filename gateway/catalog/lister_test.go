package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// newLister returns a lister for the upstream at url.
func newLister(t *testing.T, url string) *Lister {
	t.Helper()
	cfg := upstream.Config{Name: "up", URL: url}
	cfg.SetDefaults()
	client, err := upstream.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &Lister{Transport: upstream.NewHTTP(client, upstream.StaticHeaders{}), Agent: "svc-test", Version: "1"}
}

func keysOf(t *testing.T, o *Offer, kind mcp.ListKind, member string) (out []string) {
	t.Helper()
	for _, l := range o.Lists {
		if l.Kind != kind {
			continue
		}
		for _, raw := range l.Items {
			var m map[string]any
			if err := json.Unmarshal(raw, &m); err != nil {
				t.Fatal(err)
			}
			out = append(out, m[member].(string))
		}
	}
	return out
}

// The official Go SDK's server, in both generations, lists all its items over several pages.
func TestOfferOfTheGoSDK(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, &sdk.ServerOptions{Instructions: "Read é first.", PageSize: 2})
		for i := range 5 {
			name := fmt.Sprintf("n%d", i)
			sdk.AddTool(server, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
				return nil, nil, nil
			})
			server.AddPrompt(&sdk.Prompt{Name: name}, nil)
			server.AddResource(&sdk.Resource{URI: "file:///" + name, Name: name}, nil)
		}
		server.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "file:///{path}", Name: "all"}, nil)
		h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
		defer h.Close()
		l := newLister(t, h.URL)
		for range 2 { // the second time the generation is known
			o, err := l.Read(t.Context(), mcp.ListKinds[:]...)
			if err != nil {
				t.Fatal(err)
			}
			if o.Instructions != "Read é first." || o.Revision == "" || len(o.Lists) != len(mcp.ListKinds) {
				t.Errorf("stateless %v: %q in %q, %d lists", stateless, o.Instructions, o.Revision, len(o.Lists))
			}
			for kind, member := range map[mcp.ListKind]string{mcp.Tool: "name", mcp.Prompt: "name", mcp.Resource: "name"} {
				if got := fmt.Sprint(keysOf(t, o, kind, member)); got != "[n0 n1 n2 n3 n4]" {
					t.Errorf("stateless %v, %s: %s", stateless, kind, got)
				}
			}
			if got := fmt.Sprint(keysOf(t, o, mcp.Template, "uriTemplate")); got != "[file:///{path}]" {
				t.Errorf("stateless %v: templates %s", stateless, got)
			}
		}
		h.CloseClientConnections()
	}
}

// script is a stateless upstream that responds by method and cursor.
func script(t *testing.T, answer func(method, cursor string) string) (url string, asked func() string) {
	t.Helper()
	var mu sync.Mutex
	var methods []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Cursor string }
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &m)
		mu.Lock()
		methods = append(methods, m.Method)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer(m.Method, m.Params.Cursor))
	}))
	t.Cleanup(s.Close)
	return s.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(methods, " ")
	}
}

const everything = `"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}}}`

// A list that is endless, too large or cyclic is cut, and the items so far are kept.
func TestListsAreCut(t *testing.T) {
	big := strings.Repeat("x", 60<<10)
	tests := []struct {
		name string
		page func(cursor string) string
		want error
		keep int // the least number of items
	}{
		{"a cursor that leads to itself", func(string) string { return `"result":{"tools":[{"name":"a"}],"nextCursor":"c"}` }, ErrCycle, 1},
		{"a circle of three", func(c string) string {
			return `"result":{"tools":[{"name":"a"}],"nextCursor":"` + map[string]string{"": "1", "1": "2", "2": "3", "3": "1"}[c] + `"}`
		}, ErrCycle, 3},
		{"endless empty pages", func(c string) string { return `"result":{"tools":[],"nextCursor":"` + c + `1"}` }, ErrPages, 0},
		{"too many", func(string) string {
			return `"result":{"tools":[` + strings.Repeat(`{"name":"a"},`, MaxItems) + `{"name":"b"}]}`
		}, ErrTooMany, MaxItems},
		{"too large", func(c string) string {
			return `"result":{"tools":[` + strings.Repeat(`{"name":"a","description":"`+big+`"},`, 100) + `{"name":"b"}],"nextCursor":"` + c + `1"}`
		}, ErrTooLarge, 101},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url, _ := script(t, func(method, cursor string) string {
				if method == "server/discover" {
					return everything
				}
				return tt.page(cursor)
			})
			l := newLister(t, url)
			o, err := l.Read(t.Context(), mcp.Tool)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.Lists[0]; !errors.Is(got.Cut, tt.want) || len(got.Items) < tt.keep {
				t.Errorf("%d items, cut: %v", len(got.Items), got.Cut)
			}
		})
	}
}

// Resources without templates are no error, and lists without a capability are not requested.
func TestOnlyWhatIsOfferedIsAsked(t *testing.T) {
	url, asked := script(t, func(method, _ string) string {
		switch method {
		case "server/discover":
			return `"result":{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{}}}`
		case "resources/list":
			return `"result":{"resources":[{"uri":"a:b"}]}`
		}
		return `"error":{"code":-32601,"message":"unknown"}`
	})
	o, err := newLister(t, url).Read(t.Context(), mcp.ListKinds[:]...)
	if err != nil || fmt.Sprint(keysOf(t, o, mcp.Resource, "uri")) != "[a:b]" {
		t.Fatalf("%+v, %v", o, err)
	}
	if got := asked(); got != "server/discover resources/list resources/templates/list" {
		t.Errorf("asked %s", got)
	}
}

// Tools that a server lists only for clients with elicitation and sampling, with apps and skills, are
// read, in both generations.
func TestListsAreReadWithCapabilities(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
		server.AddTool(&sdk.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}}, nil)
		server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				if method == "tools/list" {
					p := req.GetSession().(*sdk.ServerSession).InitializeParams()
					declared, err := json.Marshal(p)
					if err != nil || !strings.Contains(string(declared), `"elicitation":`) || !strings.Contains(string(declared), `"sampling":`) ||
						!strings.Contains(string(declared), `"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}`) || !strings.Contains(string(declared), `"io.modelcontextprotocol/skills":{}`) {
						t.Logf("declared %s: %v", declared, err)
						return &sdk.ListToolsResult{Tools: []*sdk.Tool{}}, nil
					}
				}
				return next(ctx, method, req)
			}
		})
		h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
		defer h.Close()
		o, err := newLister(t, h.URL).Read(t.Context(), mcp.Tool)
		if err != nil {
			t.Fatal(err)
		}
		if got := keysOf(t, o, mcp.Tool, "name"); len(got) != 1 || got[0] != "ask" {
			t.Errorf("stateless %v, revision %s: listed %v, want ask", stateless, o.Revision, got)
		}
	}
}

// An upstream with a configured revision is read in the generation of that revision alone.
func TestOfferInAConfiguredRevision(t *testing.T) {
	for protocol, want := range map[string]string{
		"":           "server/discover tools/list",
		"auto":       "server/discover tools/list",
		"2026-07-28": "server/discover tools/list",
		"2025-06-18": "initialize notifications/initialized tools/list",
	} {
		url, asked := script(t, func(method, _ string) string {
			switch method {
			case "server/discover":
				return `"result":{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}}}`
			case "initialize":
				return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
			}
			return `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`
		})
		l := newLister(t, url)
		l.Protocol = protocol
		if o, err := l.Read(t.Context(), mcp.Tool); err != nil || len(o.Lists[0].Items) != 1 || asked() != want {
			t.Errorf("%q: %+v, %v: %s", protocol, o, err, asked())
		}
	}
	url, asked := script(t, func(string, string) string { return `"error":{"code":-32601,"message":"method not found"}` })
	l := newLister(t, url)
	l.Protocol = "2026-07-28"
	if _, err := l.Read(t.Context(), mcp.Tool); err == nil || asked() != "server/discover" {
		t.Errorf("%v: %s", err, asked())
	}
}

// A server that declares no list ("capabilities": {}) is asked for its lists nevertheless; what it
// rejects is empty. One that declares some is asked for these alone.
func TestListsThatAreNotDeclared(t *testing.T) {
	for capabilities, want := range map[string]string{`{}`: "[a] [tools/list prompts/list resources/list resources/templates/list]", `{"logging":{}}`: "[a] [tools/list prompts/list resources/list resources/templates/list]",
		`{"prompts":{}}`: "[] [prompts/list]"} {
		var mu sync.Mutex
		var asked []string
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.NewDecoder(r.Body).Decode(&m)
			w.Header().Set("Content-Type", "application/json")
			switch m.Method {
			case mcp.MethodInitialize:
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":%s,"serverInfo":{"name":"s","version":"1"}}}`, m.ID, capabilities)
				return
			case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
				mu.Lock()
				asked = append(asked, m.Method)
				mu.Unlock()
			}
			switch m.Method {
			case "tools/list":
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}`, m.ID)
			case "prompts/list":
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"prompts":[]}}`, m.ID)
			default:
				if m.ID == nil {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
			}
		}))
		o, err := newLister(t, h.URL).Read(t.Context(), mcp.ListKinds[:]...)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if got := fmt.Sprint(keysOf(t, o, mcp.Tool, "name"), asked); got != want {
			t.Errorf("%s: %s, want %s", capabilities, got, want)
		}
		mu.Unlock()
		h.Close()
	}
}
