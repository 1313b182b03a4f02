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
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// server is an upstream of a test; it records the methods of its requests.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	heads []http.Header
}

// newServer responds to each request with the result of answer for its method
// and cursor: a result, an error object, or only a status.
func newServer(t *testing.T, answer func(method, cursor string, r *http.Request) (status int, body string)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Cursor string }
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &m)
		if m.Method == "" {
			m.Method = r.Method
		}
		s.mu.Lock()
		s.asked = append(s.asked, m.Method)
		s.heads = append(s.heads, r.Header.Clone())
		s.mu.Unlock()
		status, body := answer(m.Method, m.Params.Cursor, r)
		if body == "" {
			w.WriteHeader(status)
			return
		}
		if m.Method == "initialize" {
			w.Header().Set("Mcp-Session-Id", "s1")
		}
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, body)
		if r.URL.Path == "/sse" {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			fmt.Fprintf(w, ": hi\n\nid: 1\ndata:\n\nevent: message\ndata: %s\n\ndata: %s\n\n", `{"jsonrpc":"2.0","id":"x","method":"ping"}`, body)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) order() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, " ")
}

func (s *server) lister(t *testing.T, path string) *tools {
	t.Helper()
	cfg := upstream.Config{Name: "up", URL: s.URL + path}
	cfg.SetDefaults()
	cfg.Headers = map[string]string{"X-Upstream-Key": "k"}
	client, err := upstream.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &tools{Lister{Transport: upstream.NewHTTP(client, upstream.StaticHeaders{}), Agent: agent, Version: "test"}}
}

// tools lists the tools of an upstream.
type tools struct{ lister Lister }

func (l *tools) list(ctx context.Context) (*List, error) {
	o, err := l.lister.Read(ctx, mcp.Tool)
	if err != nil {
		return new(List), err
	}
	return &o.Lists[0], nil
}

// names returns the names in a list of tools.
func names(l *List) (out []string) {
	for _, item := range l.Items {
		name, _ := mcp.StringValue(mcp.Find(item, mcp.Span{End: len(item)}, "name").Of(item))
		out = append(out, name)
	}
	return out
}

const (
	discovered  = `"result":{"resultType":"complete","supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{"tools":{}}}`
	initialized = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
)

// pagesOf responds to tools/list with pages of one tool.
func pagesOf(cursor string, names ...string) string {
	i := 0
	if cursor != "" {
		fmt.Sscan(cursor, &i)
	}
	next := ""
	if i+1 < len(names) {
		next = fmt.Sprintf(`,"nextCursor":"%d"`, i+1)
	}
	return fmt.Sprintf(`"result":{"tools":[{"name":%q}],"ttlMs":%d,"cacheScope":"public"%s}`, names[i], 9000-1000*i, next)
}

// An upstream without sessions is asked for its capabilities, then for all
// pages; each request declares its revision and method in header and body, and
// no session is opened.
func TestListStateless(t *testing.T) {
	for _, path := range []string{"/", "/sse"} {
		s := newServer(t, func(method, cursor string, _ *http.Request) (int, string) {
			if method == "server/discover" {
				return 200, discovered
			}
			return 200, pagesOf(cursor, "a", "b", "c")
		})
		l := s.lister(t, path)
		for range 2 {
			got, err := l.list(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(names(got)) != "[a b c]" || got.Private || !got.HasTTL || got.TTL != 7*time.Second {
				t.Errorf("got %v, %+v", names(got), got)
			}
		}
		if got, want := s.order(), strings.TrimSpace(strings.Repeat(" server/discover tools/list tools/list tools/list", 2)); got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
		for i, h := range s.heads {
			if h.Get("MCP-Protocol-Version") != "2026-07-28" || h.Get("Mcp-Method") != s.asked[i] || h.Get("Mcp-Session-Id") != "" || h.Get("X-Upstream-Key") != "k" {
				t.Errorf("headers of %s: %v", s.asked[i], h)
			}
		}
	}
}

// For an upstream with sessions a session is opened, which is ended afterwards.
func TestListWithASession(t *testing.T) {
	for _, path := range []string{"/", "/sse"} {
		s := newServer(t, func(method, cursor string, r *http.Request) (int, string) {
			switch method {
			case "server/discover":
				return 400, ""
			case "initialize":
				return 200, initialized
			case "notifications/initialized":
				return 202, ""
			case "DELETE":
				return 204, ""
			}
			if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("MCP-Protocol-Version") != "2025-06-18" {
				return 404, ""
			}
			return 200, pagesOf(cursor, "a", "b")
		})
		l := s.lister(t, path)
		for range 2 {
			got, err := l.list(t.Context())
			if err != nil || fmt.Sprint(names(got)) != "[a b]" {
				t.Fatalf("got %+v, %v", got, err)
			}
		}
		visit := " initialize notifications/initialized tools/list tools/list DELETE"
		if got, want := s.order(), "server/discover"+visit+visit; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}

// The replacement of an upstream by one of the other protocol generation is
// detected without a failed list.
func TestListAfterAnUpgrade(t *testing.T) {
	var modern atomic.Bool
	s := newServer(t, func(method, cursor string, _ *http.Request) (int, string) {
		switch {
		case modern.Load() && method == "server/discover":
			return 200, discovered
		case modern.Load() && method == "initialize":
			return 404, `"error":{"code":-32601,"message":"no"}`
		case method == "server/discover":
			return 404, ""
		case method == "initialize":
			return 200, initialized
		case method == "notifications/initialized", method == "DELETE":
			return 202, ""
		}
		return 200, pagesOf(cursor, "a")
	})
	l := s.lister(t, "/")
	for _, now := range []bool{false, true, true} {
		modern.Store(now)
		if got, err := l.list(t.Context()); err != nil || len(got.Items) != 1 {
			t.Fatalf("modern %v: %+v, %v", now, got, err)
		}
	}
}

func TestListOfAnUpstreamWithoutTools(t *testing.T) {
	s := newServer(t, func(method, _ string, _ *http.Request) (int, string) {
		return 200, `"result":{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{}}}`
	})
	if got, err := s.lister(t, "/").list(t.Context()); err != nil || len(got.Items) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	if s.order() != "server/discover" {
		t.Errorf("asked %s", s.order())
	}
}

// Cache hints of the list: private on one page makes the list private, an
// unknown scope too; the shortest lifetime applies.
func TestListHints(t *testing.T) {
	tests := []struct {
		name    string
		hints   []string // of the pages
		private bool
		ttl     time.Duration
		hasTTL  bool
	}{
		{"none", []string{``}, false, 0, false},
		{"public", []string{`,"cacheScope":"public","ttlMs":1500`}, false, 1500 * time.Millisecond, true},
		{"private on the second page", []string{`,"cacheScope":"public"`, `,"cacheScope":"private"`}, true, 0, false},
		{"unknown scope", []string{`,"cacheScope":"team"`}, true, 0, false},
		{"scope of another type", []string{`,"cacheScope":7`}, true, 0, false},
		{"zero", []string{`,"ttlMs":60000`, `,"ttlMs":0`}, false, 0, true},
		{"negative", []string{`,"ttlMs":-5`}, false, 0, true},
		{"huge", []string{`,"ttlMs":1e300`}, false, 2147483647 * time.Millisecond, true},
		{"no number", []string{`,"ttlMs":"5"`}, false, 0, false},
		{"null", []string{`,"ttlMs":null,"cacheScope":null`}, false, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, func(method, cursor string, _ *http.Request) (int, string) {
				if method == "server/discover" {
					return 200, discovered
				}
				if cursor == "" && len(tt.hints) > 1 {
					return 200, `"result":{"tools":[],"nextCursor":"2"` + tt.hints[0] + `}`
				}
				return 200, `"result":{"tools":[]` + tt.hints[len(tt.hints)-1] + `}`
			})
			got, err := s.lister(t, "/").list(t.Context())
			if err != nil || got.Private != tt.private || got.TTL != tt.ttl || got.HasTTL != tt.hasTTL {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// A response that is no list is an error with the reason, without the upstream's words.
func TestListOfAnUpstreamThatRefuses(t *testing.T) {
	tests := []struct {
		name string
		page func(cursor string) (int, string)
		want string
	}{
		{"an error", func(string) (int, string) { return 200, `"error":{"code":-32603,"message":"boom"}` }, "refused with code -32603"},
		{"a status", func(string) (int, string) { return 503, "" }, "refused with status 503"},
		{"no list", func(string) (int, string) { return 200, `"result":{}` }, "does not belong to the request"},
		{"a list of another type", func(string) (int, string) { return 200, `"result":{"tools":{}}` }, "does not belong to the request"},
		{"duplicate members", func(string) (int, string) { return 200, `"result":{"tools":[{"name":"a","name":"b"}]}` }, "tools/list"},
		{"the answer to another", func(string) (int, string) { return 200, `"id":7,"result":{"tools":[]}` }, "tools/list"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, func(method, cursor string, _ *http.Request) (int, string) {
				if method == "server/discover" {
					return 200, discovered
				}
				if method != "tools/list" {
					return 400, ""
				}
				return tt.page(cursor)
			})
			l := s.lister(t, "/")
			got, err := l.list(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v, want an error with %q", got, err, tt.want)
			}
			if strings.Contains(fmt.Sprint(err), "boom") {
				t.Error("the error carries the upstream's words")
			}
		})
	}
}

// An unreachable upstream is distinguished from one that refuses.
func TestListOfAnUpstreamThatIsNotThere(t *testing.T) {
	s := newServer(t, func(string, string, *http.Request) (int, string) { return 200, discovered })
	l := s.lister(t, "/")
	s.Close()
	if _, err := l.list(t.Context()); !errors.Is(err, upstream.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}
