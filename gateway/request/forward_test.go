package request_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc/gateway/refusal"
	"svc/gateway/request"
	"svc/gateway/request/requesttest"
	"svc/gateway/upstream"
)

const (
	forwardingRules   = "policy: {default_action: allow, rules: [{id: hide, action: redact, when: {direction: server_to_client}, redact: [{regex: secret, replacement: '***'}]}]}\nroutes: [{match: {tool_prefix: s}, upstream: tools}]\n"
	forwardingRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe"}}`
	answer            = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a secret"}]}}`
	hidden            = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a ***"}]}}`
	event             = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
)

// take runs the steps of a request and forwards it.
func take(t *testing.T, s *requesttest.Services, method, body string, on func(*request.Exchange) *refusal.Refusal) (*httptest.ResponseRecorder, *refusal.Refusal) {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, "http://127.0.0.1/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	ex := request.Begin(s.Services, w, r, nil)
	defer ex.Release()
	var refused *refusal.Refusal
	if method == http.MethodPost {
		for _, step := range []func() *refusal.Refusal{ex.Authenticate, ex.Read, ex.ResolveDialect, ex.Judge, ex.Route} {
			if refused = step(); refused != nil {
				t.Fatalf("refused before: %+v", refused)
			}
		}
	}
	if refused = on(ex); refused != nil {
		ex.Refuse(refused)
	}
	return w, refused
}

// The upstream's response to a call is judged, recorded and forwarded, as one message or as a
// stream; a response that is no answer is refused.
func TestForward(t *testing.T) {
	for _, c := range []struct {
		name    string
		resp    *upstream.Response
		err     error
		refused *refusal.Refusal
		status  int
		body    string
		kinds   string // of the audit lines
	}{
		{name: "a message", resp: requesttest.Respond(200, "application/json", answer), status: 200, body: hidden, kinds: "request"},
		{name: "a stream", resp: requesttest.Respond(200, "text/event-stream", "data: "+event+"\n\ndata: "+answer+"\n\n"), status: 200,
			body: "data: " + event + "\n\ndata: " + hidden + "\n\n", kinds: "open frame frame request"},
		{name: "a stream without the answer", resp: requesttest.Respond(200, "text/event-stream", "data: "+event+"\n\n"), status: 200,
			body: `"error"`, kinds: "open frame request"},
		{name: "no JSON", resp: requesttest.Respond(200, "text/html", "<p>secret</p>"), refused: &refusal.UpstreamInvalid, status: 502, kinds: "request"},
		{name: "nothing", err: &upstream.Error{Upstream: "tools", Op: "connect", Kind: upstream.ErrUnreachable, Err: errors.New("connection refused")}, refused: &refusal.Unreachable, status: 502, kinds: "request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent string
			s := requesttest.New(t, forwardingRules, func(method string, r *upstream.Request) (*upstream.Response, error) {
				sent = method + " " + string(r.Body)
				return c.resp, c.err
			})
			w, refused := take(t, s, http.MethodPost, forwardingRequest, (*request.Exchange).Forward)
			if sent != "POST "+forwardingRequest {
				t.Errorf("sent %q", sent)
			}
			if (refused == nil) != (c.refused == nil) {
				t.Errorf("refused %+v, want %+v", refused, c.refused)
			}
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.body)
			}
			var kinds []string
			for _, line := range s.Lines() {
				kind, _ := line["kind"].(string)
				if kind == "" {
					kind = "request"
				}
				kinds = append(kinds, kind)
			}
			if got := strings.Join(kinds, " "); got != c.kinds {
				t.Errorf("lines %s, want %s", got, c.kinds)
			}
		})
	}
}

// The standalone stream and the end of a session go to the default upstream; for an upstream
// without streams the response is 405.
func TestControl(t *testing.T) {
	var asked []string
	s := requesttest.New(t, forwardingRules, func(method string, _ *upstream.Request) (*upstream.Response, error) {
		asked = append(asked, method)
		if method == http.MethodGet {
			return requesttest.Respond(http.StatusMethodNotAllowed, "", ""), nil
		}
		return requesttest.Respond(http.StatusNoContent, "", ""), nil
	})
	if w, refused := take(t, s, http.MethodGet, "", (*request.Exchange).ControlStream); refused == nil || w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d, refused %+v", w.Code, refused)
	}
	if w, refused := take(t, s, http.MethodDelete, "", (*request.Exchange).EndSession); refused != nil || w.Code != http.StatusNoContent {
		t.Errorf("DELETE: %d, refused %+v", w.Code, refused)
	}
	if got := strings.Join(asked, " "); got != "GET DELETE" {
		t.Errorf("the upstream received %s", got)
	}
	if lines := s.Lines(); len(lines) != 2 {
		t.Errorf("lines %v", lines)
	}
}
