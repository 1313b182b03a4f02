package translate

import (
	"fmt"
	"strings"
	"testing"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// A call with an argument that looks like initialize begins no session: it is
// translated, is executed once, and does not change the finding about the upstream.
func TestACallWhoseArgumentReadsInitialize(t *testing.T) {
	s := &server{modern: true, legacy: true, hides: true}
	tr := newTransport(t, s)
	tr.finder.Ask(t.Context(), nil)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"step":"initialize"}}}`
	if status, text, _ := send(t, tr, mcp.Session{Version: "2025-11-25"}, body); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if len(s.performed) != 1 || !strings.HasPrefix(s.performed[0], "modern") {
		t.Errorf("performed %q", s.performed)
	}
	if got := tr.Speaks(t.Context()); got != modernAlone {
		t.Errorf("the upstream is held to speak %s", got)
	}
}

// A 200 without a result of initialize does not accept it: the gateway issues the
// session itself.
func TestAnInitializeThatIsRejectedWith200(t *testing.T) {
	for name, answer := range map[string]func(m *mcp.Message) *upstream.Response{
		"an error": func(m *mcp.Message) *upstream.Response {
			return upstream.Message(200, mcp.AppendError(nil, m.ID, mcp.CodeMethodNotFound, "m", "r", ""))
		},
		"an error as an event": func(m *mcp.Message) *upstream.Response {
			return event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"m"}}`, m.ID))
		},
		"a result without a revision": func(m *mcp.Message) *upstream.Response {
			return upstream.Message(200, appendResult(nil, m.ID, []byte(`{}`)))
		},
		"a page": func(*mcp.Message) *upstream.Response {
			resp := upstream.Message(200, []byte("<html>"))
			resp.Header = mcp.Header{{Name: "Content-Type", Value: "text/html"}}
			return resp
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{modern: true, initialized: answer}
			tr := newTransport(t, s)
			tr.finder.Ask(t.Context(), nil)
			status, text, id := send(t, tr, mcp.Session{}, translateHello)
			if status != 200 || !isSession(id) {
				t.Errorf("%d, session %q: %s", status, id, text)
			}
			if got := tr.Speaks(t.Context()); got != modernAlone {
				t.Errorf("the upstream is held to speak %s", got)
			}
		})
	}
}

// A session that a server opens with an event is forwarded to the client unchanged.
func TestAnInitializeThatIsAcceptedWithAnEvent(t *testing.T) {
	result := `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`
	s := &server{modern: true, initialized: func(*mcp.Message) *upstream.Response { return event(result) }}
	tr := newTransport(t, s)
	tr.finder.Ask(t.Context(), nil)
	if status, text, _ := send(t, tr, mcp.Session{}, translateHello); status != 200 || !strings.Contains(text, result) || strings.Count(text, "data:") != 1 {
		t.Errorf("%d %s", status, text)
	}
	if got := tr.Speaks(t.Context()); !got.Modern || !got.Legacy {
		t.Errorf("the upstream is held to speak %s", got)
	}
}

// event is an event stream of one message.
func event(message string) *upstream.Response {
	resp := upstream.Message(200, mcp.AppendEvent(nil, mcp.Event{Data: []byte(message), HasData: true}))
	resp.Header = mcp.Header{{Name: "Content-Type", Value: EventStream}}
	return resp
}
