package translate

import (
	"fmt"
	"strings"
	"testing"

	"svc/gateway/mcp"
	"svc/gateway/session"
)

// text returns the message of a response, and the error_kind for the audit line.
func (c *tomodernClient) text(body string) (text, kind string) {
	c.t.Helper()
	resp := c.post(body)
	got, err := readAll(resp)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.Refused != nil {
		kind = resp.Refused.Kind
	}
	return string(got), kind
}

// Declarations of a client that no upstream could get are refused at once, so that it has
// no session in which each call fails; null counts as absent.
func TestOddDeclarations(t *testing.T) {
	s := &modern{answer: func(int, *mcp.Message, mcp.Header) string { return `{}` }}
	c := &tomodernClient{newTranslator(t, s), t, "", alice}
	for params, want := range map[string]string{
		`"clientInfo":5`:                      "client_info",
		`"clientInfo":[]`:                     "client_info",
		`"clientInfo":"c"`:                    "client_info",
		`"capabilities":7`:                    "client_capabilities",
		`"capabilities":{"elicitation":true}`: "client_capabilities",
		`"capabilities":{"roots":[]},"clientInfo":{"name":""}`:                   "client_capabilities",
		`"capabilities":{"sampling":{"x":"` + strings.Repeat("x", 3<<20) + `"}}`: "client_capabilities",
		`"clientInfo":null,"capabilities":null`:                                  "",
		`"capabilities":{"elicitation":null,"tasks":7}`:                          "",
		`"clientInfo":{"name":"c","version":"1"}`:                                "",
	} {
		asked := len(s.seen)
		text, kind := c.text(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",` + params + `}}`)
		if kind != want || want != "" && (!strings.Contains(text, `"code":-32602`) || !strings.Contains(text, `"reason":"`+want+`"`) || len(s.seen) > asked) {
			t.Errorf("%.100s: %q, %.300s", params, kind, text)
		}
	}
}

// A requestState that is null counts as absent; one of another type is not a retry either.
func TestStatesThatAreNone(t *testing.T) {
	for state, want := range map[string]string{`null`: errNothingAsked.Error(), `7`: errStateType.Error(), `{}`: errStateType.Error()} {
		s := &modern{answer: func(int, *mcp.Message, mcp.Header) string {
			return `{"resultType":"input_required","requestState":` + state + `}`
		}}
		c := connect(t, s, `{"elicitation":{}}`)
		if got := c.ask(callTool, nil); !strings.Contains(got, want) || !strings.Contains(got, `"isError":true`) || len(s.seen) != 2 {
			t.Errorf("%s: %s after %d requests", state, got, len(s.seen))
		}
	}
	// The same with a question: the retry has no state.
	s := &modern{answer: func(n int, m *mcp.Message, _ mcp.Header) string {
		if strings.Contains(string(m.Body), "requestState") {
			return `!{"code":-32602,"message":"a state"}`
		}
		if n > 2 {
			return `{"resultType":"complete","content":[]}`
		}
		return `{"resultType":"input_required","requestState":null,"inputRequests":{"k":{"method":"elicitation/create","params":{"message":"m"}}}}`
	}}
	c := connect(t, s, `{"elicitation":{}}`)
	if got := c.ask(callTool, func(*mcp.Message) string { return `"result":{"action":"accept"}` }); !strings.Contains(got, `"content":[]`) {
		t.Errorf("got %s", got)
	}
}

// A request with the id of a running one is refused, and does not affect the running one.
func TestTwoRequestsWithOneID(t *testing.T) {
	s := &modern{answer: func(n int, m *mcp.Message, _ mcp.Header) string {
		if n > 2 {
			return `{"resultType":"complete","content":[]}`
		}
		return asksOnce
	}}
	c := connect(t, s, `{"elicitation":{}}`)
	got := c.ask(callTool, func(*mcp.Message) string {
		text, kind := c.text(callTool)
		if kind != "request_id_in_use" || !strings.Contains(text, `"code":-32600`) || !strings.Contains(text, `"id":"c1"`) || len(s.seen) != 2 {
			t.Errorf("the second: %q %s", kind, text)
		}
		other := &tomodernClient{c.ToModern, t, c.id, session.NewID()} // ids belong to a session
		if _, kind := other.text(strings.ReplaceAll(callTool, "tools/call", "tools/list")); kind != "" {
			t.Errorf("of another session: %q", kind)
		}
		return `"result":{"action":"accept"}`
	})
	if !strings.Contains(got, `"content":[]`) {
		t.Errorf("the first: %s", got)
	}
	if got := c.ask(callTool, nil); !strings.Contains(got, `"content":[]`) { // the id can be used again
		t.Errorf("afterwards: %s", got)
	}
	if len(c.running) != 0 {
		t.Errorf("%d calls are remembered", len(c.running))
	}
}

// The URIs that sessions subscribe to are bounded in bytes: for a session, and over all
// sessions, of which the least recently used are removed.
func TestBytesOfSubscriptions(t *testing.T) {
	s := &modern{answer: func(int, *mcp.Message, mcp.Header) string { return `{}` }}
	c := connect(t, s, `{}`)
	subscribe := func(method, uri string) (string, string) {
		return c.text(`{"jsonrpc":"2.0","id":1,"method":"resources/` + method + `","params":{"uri":"` + uri + `"}}`)
	}
	long := strings.Repeat("x", 60<<10)
	for i := range 4 {
		if text, kind := subscribe("subscribe", fmt.Sprint(i, long)); kind != "" {
			t.Fatalf("%d: %s", i, text)
		}
	}
	text, kind := subscribe("subscribe", "4"+long)
	if kind != "subscription" || !strings.Contains(text, "262144 bytes") || !strings.Contains(text, `"code":-32602`) {
		t.Errorf("beyond the bound: %q %s", kind, text)
	}
	if _, kind := subscribe("subscribe", "0"+long); kind != "" { // the same again
		t.Errorf("one that is subscribed to: %q", kind)
	}
	subscribe("unsubscribe", "0"+long)
	subscribe("unsubscribe", "never")
	if _, kind := subscribe("subscribe", "4"+long); kind != "" {
		t.Errorf("after an unsubscribe: %q", kind)
	}
	first := c.session
	for range 200 {
		c.session = session.NewID()
		for i := range 4 {
			if text, kind := subscribe("subscribe", fmt.Sprint(i, long)); kind != "" {
				t.Fatalf("another session: %s", text)
			}
		}
	}
	if c.watching[first] != nil || c.watching[c.session] == nil || c.watchedBytes > maxAllURIBytes {
		t.Errorf("%d bytes of %d sessions", c.watchedBytes, len(c.watching))
	}
	for id := range c.watching {
		c.unwatch(id)
	}
	if c.watchedBytes != 0 {
		t.Errorf("%d bytes of no session", c.watchedBytes)
	}
}
