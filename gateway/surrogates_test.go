package gateway

import (
	"strings"
	"testing"
)

// A client mirrors an argument with half a surrogate pair in a header as U+FFFD, because UTF-8
// cannot encode it. The header is compared with the message that is sent, and forwarded.
func TestReplacedSurrogatesAgreeWithMirroredArguments(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, rules(basic(up.URL), "    - {id: mask, action: redact, when: {tool_name: mask}, redact: [{regex: secret, replacement: '-'}]}\n"))
	const mirrored = "=?base64?Y3V0IO+/vQ==?=" // "cut \uFFFD"
	body := strings.Replace(call("1", "mask"), "{}", `{"city":"cut \ud83d","b":"secret"}`, 1)
	if got := r.post(body, "Mcp-Param-City", mirrored); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	sent := up.seen()[0]
	if !strings.Contains(sent.body, "{\"city\":\"cut \uFFFD\",\"b\":\"-\"}") || sent.header.Get("Mcp-Param-City") != mirrored {
		t.Errorf("the upstream got %s with %q", sent.body, sent.header.Get("Mcp-Param-City"))
	}
}

// Policies of the control plane are applied to the text that is sent.
func TestReplacedSurrogatesAreJudgedByPolicies(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	g.give(requestPII("redact", "replace", "EMAIL"))
	r := governedRig(t, open(up.URL)+governance, g)
	if got := r.post(callWith(`{"to":"bob@example.com \ud83d"}`)); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if s := up.seen()[0].body; !strings.Contains(s, "[EMAIL] \uFFFD") && !strings.Contains(s, `[EMAIL] \ufffd`) {
		t.Errorf("the upstream got %s", s)
	}
}
