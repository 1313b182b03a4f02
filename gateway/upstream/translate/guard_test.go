package translate

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// rolledBack is a server that rejects the other generation in a configurable way, and
// counts the requests for its revisions.
type rolledBack struct {
	*server
	reject func(m *mcp.Message) *upstream.Response
	asked  int
}

func (s *rolledBack) Post(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	var m mcp.Message
	if err := mcp.Scan(r.Body, &m); err != nil {
		return nil, err
	}
	if m.Method == mcp.MethodDiscover {
		s.asked++
	}
	if mcp.Modern(r.Session.Version) && s.reject != nil {
		return s.reject(&m), nil
	}
	return s.server.Post(ctx, r)
}

func (s *rolledBack) Listen(context.Context, *upstream.Request) (*upstream.Response, error) {
	return upstream.Empty(http.StatusMethodNotAllowed), nil
}

func rejecting(status, code int) func(m *mcp.Message) *upstream.Response {
	return func(m *mcp.Message) *upstream.Response {
		return upstream.Message(status, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"m"}}`, idOf(m), code))
	}
}

// A server of 2026-07-28 that is rolled back to a revision with sessions is detected
// for any of its responses, for clients of both generations, and no call is executed
// twice.
func TestAnUpstreamThatIsRolledBack(t *testing.T) {
	html := func(*mcp.Message) *upstream.Response {
		resp := upstream.Message(405, []byte("<p>no"))
		resp.Header[0].Value = "text/html"
		return resp
	}
	for name, reject := range map[string]func(*mcp.Message) *upstream.Response{
		"of the TypeScript SDK": rejecting(400, -32000),
		"an invalid request":    rejecting(400, -32600),
		"no such method":        rejecting(400, -32601),
		"no such session":       rejecting(404, -32001),
		"HTML":                  html,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &rolledBack{server: &server{modern: true}}
			tr := newTransport(t, s)
			_, _, id := send(t, tr, mcp.Session{}, translateHello)
			send(t, tr, mcp.Session{ID: id, Version: "2025-11-25"}, legacyCall)
			s.modern, s.legacy, s.reject = false, true, reject
			<-time.After(time.Minute)
			if status, text, _ := send(t, tr, mcp.Session{Version: "2026-07-28"}, modernCall); status != 200 || len(s.performed) != 2 || !strings.HasPrefix(s.performed[1], "legacy") {
				t.Errorf("%s, a client of 2026-07-28: %d %s, performed %q", name, status, text, s.performed)
			}
			for _, body := range []string{legacyCall, translateHello} { // both requests find the server without a finding of the other
				tr.finder.Note(modernAlone)
				<-time.After(time.Minute)
				at := mcp.Session{ID: id, Version: "2025-11-25"}
				want := http.StatusNotFound // the client then opens another session
				if body == translateHello {
					at, want = mcp.Session{}, http.StatusOK
				}
				if status, text, opened := send(t, tr, at, body); status != want || body == translateHello && opened != "own" {
					t.Errorf("%s, %.40s: %d %s, session %q", name, body, status, text, opened)
				}
			}
			tr.finder.Note(modernAlone)
			<-time.After(time.Minute)
			resp, err := tr.Listen(t.Context(), &upstream.Request{Session: mcp.Session{ID: id, Version: "2025-11-25"}})
			if err != nil || resp.Status != http.StatusNotFound {
				t.Errorf("%s, the stream of a session: %v %v", name, resp, err)
			}
			if len(s.performed) != 2 {
				t.Errorf("%s: performed %q", name, s.performed)
			}
		})
	}
}

// Errors that a server of 2026-07-28 sends cause no request for its revisions, and
// others at most one in ten seconds; the client gets them.
func TestErrorsThatDoNotContradict(t *testing.T) {
	for name, tt := range map[string]struct {
		status, code int
		questions    int
	}{
		"a header":      {400, -32020, 0},
		"a capability":  {400, -32021, 0},
		"arguments":     {400, -32602, 0},
		"a method":      {404, -32601, 0},
		"of a tool":     {200, -32000, 0},
		"of the server": {400, -32099, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &rolledBack{server: &server{modern: true}}
			tr := newTransport(t, s)
			tr.finder.Ask(t.Context(), nil)
			<-time.After(time.Minute)
			s.asked = 0
			s.reject = func(m *mcp.Message) *upstream.Response {
				if m.Method == mcp.MethodDiscover {
					return upstream.Message(200, appendResult(nil, m.ID, []byte(`{"supportedVersions":["2026-07-28"]}`)))
				}
				return rejecting(tt.status, tt.code)(m)
			}
			for range 3 {
				if status, text, _ := send(t, tr, mcp.Session{Version: "2026-07-28"}, modernCall); status != tt.status || !strings.Contains(text, fmt.Sprint(tt.code)) {
					t.Errorf("%s: %d %s", name, status, text)
				}
			}
			if s.asked != tt.questions {
				t.Errorf("%s: %d questions, want %d", name, s.asked, tt.questions)
			}
		})
	}
}
