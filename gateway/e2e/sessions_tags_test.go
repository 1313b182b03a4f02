package e2e

import (
	"net/http"
	"testing"
)

// A tag that holds more than one value was not issued by the gateway. No part of it reaches an
// upstream: unescaped, it would add members to a message that has already been judged.
func TestForgedTagsReachNoUpstream(t *testing.T) {
	const injected = `1},\"id\":77,\"x\":{\"y\":1`
	for _, c := range []struct{ name, body, kind string }{
		{"members through a progress token", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"svc~second~` + injected + `","progress":1}}`, "unknown_progress"},
		{"members through an id", `{"jsonrpc":"2.0","id":"svc~second~1,\"x\":2","result":{}}`, "unknown_response"},
		{"an object as token", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"svc~second~{}","progress":1}}`, "unknown_progress"},
		{"no value", `{"jsonrpc":"2.0","id":"svc~second~nope","result":{}}`, "unknown_response"},
		{"no value in an error", `{"jsonrpc":"2.0","id":"svc~second~nope","error":{"code":1,"message":"m"}}`, "unknown_response"},
		{"an upstream that there is not", `{"jsonrpc":"2.0","id":"svc~third~1","result":{}}`, "unknown_response"},
		{"an escaped mark", `{"jsonrpc":"2.0","id":"\u0073vc~second~nope","result":{}}`, "unknown_response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second, r, sid := two(t)
			r.post(call("1", "slow"), "Mcp-Session-Id", sid)
			before := len(first.seen()) + len(second.seen())
			got := r.post(c.body, "Mcp-Session-Id", sid)
			if got.status != http.StatusAccepted || got.body != "" {
				t.Errorf("got %d %s, want 202", got.status, got.body)
			}
			if n := len(first.seen()) + len(second.seen()); n != before {
				t.Errorf("the upstreams got %d requests more: %v", n-before, second.seen())
			}
			line := r.lines(3)[2]
			if line["error_kind"] != c.kind || line["action"] != "allow" || line["status"] != 202.0 || line["upstream"] != nil {
				t.Errorf("audit line: %v", line)
			}
		})
	}
}

// Rules apply to a message with a tag that was not issued like to any other.
func TestForgedTagsAreJudgedByTheRules(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	r := newRig(t, twoUpstreams(first.URL, second.URL)+"    - {id: no-answers, action: deny, when: {}}\n")
	r.edit("rules:\n", "rules:\n    - {id: begin, action: allow, when: {method: initialize}}\n")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	sid := r.begin()
	got := r.post(`{"jsonrpc":"2.0","id":"svc~second~nope","result":{}}`, "Mcp-Session-Id", sid)
	if got.status != http.StatusForbidden {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if line := r.lines(2)[1]; line["rule_id"] != "no-answers" {
		t.Errorf("audit line: %v", line)
	}
}

// Rules are applied to a client's answer without its tag, as it is sent to the upstream.
func TestTagIsRemovedBeforeTheRules(t *testing.T) {
	first, second := newScripted(t), newScripted(t)
	r := newRig(t, twoUpstreams(first.URL, second.URL)+"    - {id: mark, action: redact, when: {}, redact: [{regex: 'svc~second', replacement: 'x'}, {regex: 'secret', replacement: '-'}]}\n")
	sid := r.begin()
	r.post(call("1", "slow"), "Mcp-Session-Id", sid)
	got := r.post(`{"jsonrpc":"2.0","id":"svc~second~7","result":{"a":"secret"}}`, "Mcp-Session-Id", sid)
	if got.status != http.StatusAccepted || len(second.sent(`{"jsonrpc":"2.0","id":7,"result":{"a":"-"}}`)) != 1 {
		t.Errorf("got %d %s; the second upstream got %v", got.status, got.body, second.seen())
	}
}
