package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"svc/gateway/policy"
)

func observedOf(line map[string]any) string {
	var list []string
	observed, _ := line["observed"].([]any)
	for _, o := range observed {
		o := o.(map[string]any)
		list = append(list, fmt.Sprintf("%s:%s", o["rule_id"], o["action"]))
	}
	return strings.Join(list, " ")
}

// A rule in mode observe is evaluated and recorded, never enforced, and evaluation continues with
// the next rule; in both directions, and also when the decision is cached.
func TestObserveTellsAndEnforcesNothing(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		if strings.Contains(body, "stream") {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`+"\n\n")
			fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":7,"result":{"content":[]}}`+"\n\n")
			return
		}
		echo(w, body, nil)
	})
	r := newRig(t, strings.Split(basic(up.URL), "policy:")[0]+`policy:
  default_action: deny
  rules:
    - {id: would-deny, action: deny, mode: observe, when: {tool_prefix: s}}
    - {id: would-limit, action: rate_limit, tokens_per_second: 0.001, burst: 2, mode: observe, when: {tool_name: slow}}
    - {id: would-redact, action: redact, redact: [{regex: x, replacement: y}], mode: observe, when: {tool_name: safe}}
    - {id: strip, action: strip_app, mode: observe, when: {method: tools/list}}
    - {id: tools, action: allow, mode: enforce, when: {tool_name_in: [safe, slow, stream]}}
    - {id: too-late, action: deny, mode: observe, when: {tool_name: safe}}
    - {id: would-allow, action: allow, mode: observe, when: {tool_name: other}}
    - {id: down, action: deny, mode: observe, when: {direction: server_to_client, method: notifications/message}}
`)
	for range 2 {
		if a := r.post(call("7", "safe")); a.status != 200 {
			t.Errorf("safe: %d %s", a.status, a.body)
		}
	}
	for range 3 {
		if a := r.post(call("7", "slow")); a.status != 200 {
			t.Errorf("slow: %d %s", a.status, a.body)
		}
	}
	if a := r.post(call("7", "other")); a.status != 403 {
		t.Errorf("other: %d %s", a.status, a.body)
	}
	if a := r.post(call("7", "stream")); !strings.Contains(a.body, "notifications/message") {
		t.Errorf("stream: %d %s", a.status, a.body)
	}
	lines := r.lines(9) // the last lines: opening, one frame, end
	for i, want := range []struct{ action, rule, observed string }{
		{"allow", "tools", "would-deny:deny would-redact:redact"},
		{"allow", "tools", "would-deny:deny would-redact:redact"},
		{"allow", "tools", "would-deny:deny"},
		{"allow", "tools", "would-deny:deny"},
		{"allow", "tools", "would-deny:deny would-limit:rate_limit_blocked"},
		{"deny", "default_deny", "would-allow:allow"},
		{"allow", "tools", "would-deny:deny"},
		{"allow", "", "down:deny"},
		{"allow", "tools", "would-deny:deny"},
	} {
		l := lines[i]
		rule, _ := l["rule_id"].(string)
		if l["action"] != want.action || rule != want.rule || observedOf(l) != want.observed {
			t.Errorf("line %d: %s by %q, observed %q; want %+v", i, l["action"], rule, observedOf(l), want)
		}
	}
}

// A rule that strips app content in mode observe does not change resumed streams.
func TestObserveDoesNotStrip(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, strings.Replace(basic(up.URL), "  rules:", "  rules:\n    - {id: strip, action: strip_app, mode: observe, when: {tool_name: safe}}", 1))
	if r.services().Live.Load().Verdict.Strips {
		t.Error("it would strip")
	}
	if d := r.services().Live.Load().Rules.Decide(&policy.Request{Method: "tools/call", Tool: "safe", HasTool: true}); d.Action != policy.Allow {
		t.Errorf("decided %v", d.Action)
	}
}

// A rule for both directions is recorded once for a call, also when it would have denied both the
// request and the answer: reports count requests.
func TestObserveBothWaysIsToldOnce(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, strings.Replace(basic(up.URL), "  rules:", `  rules:
    - {id: both, action: deny, mode: observe, when: {direction: ""}}
    - {id: back, action: deny, mode: observe, when: {direction: server_to_client}}`, 1))
	r.post(call("7", "safe"))
	if got := observedOf(r.lines(1)[0]); got != "both:deny back:deny" {
		t.Errorf("observed %q", got)
	}
}
