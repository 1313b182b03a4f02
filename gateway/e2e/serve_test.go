package e2e

import (
	"net/http"
	"strings"
	"testing"

	"svc/gateway/upstream"
)

func TestAllowedCallIsForwardedByteForByte(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	body := "{\"jsonrpc\":\"2.0\", \"id\": 7.0e0,\n\"method\":\"tools/call\",\"params\":{\"name\":\"safe\",\"arguments\":{\"n\":12345678901234567890}}}"
	body = strings.Replace(body, "7.0e0", "7", 1)
	got := r.post(body)
	if got.status != 200 || !strings.Contains(got.body, `"id":7`) {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	reqs := up.seen()
	if len(reqs) != 1 || reqs[0].body != body {
		t.Fatalf("upstream saw %+v, want the body byte for byte", reqs)
	}
	line := r.lines(1)[0]
	want := map[string]any{"action": "allow", "rule_id": "tools", "method": "tools/call", "tool": "safe", "upstream": "main", "principal": "alice", "principal_kind": "key", "key_id": "alice", "status": 200.0, "client_ip": "127.0.0.1"}
	for k, v := range want {
		if line[k] != v {
			t.Errorf("audit %s = %v, want %v", k, line[k], v)
		}
	}
}

func TestCredentialsNeverReachTheUpstream(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.Header().Set("Set-Cookie", "a=b")
		echo(w, body, r)
	})
	r := newRig(t, basic(up.URL))
	got := r.post(call("1", "safe"), "Cookie", "c=d", "X-Forwarded-For", "1.2.3.4", "Mcp-Param-City", "Oslo", "Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-For"} {
		if v := up.seen()[0].header.Get(name); v != "" {
			t.Errorf("upstream got %s: %s", name, v)
		}
	}
	for _, name := range []string{"Mcp-Param-City", "Traceparent", "Accept", "Content-Type"} {
		if up.seen()[0].header.Get(name) == "" {
			t.Errorf("upstream did not get %s", name)
		}
	}
	for _, name := range []string{"WWW-Authenticate", "Set-Cookie"} {
		if v := got.header.Get(name); v != "" {
			t.Errorf("client got %s: %s", name, v)
		}
	}
	if got := r.lines(1)[0]["trace_id"]; got != "4bf92f3577b34da6a3ce929d0e0e4736" {
		t.Errorf("audit trace_id = %v", got)
	}
}

// Every response that the gateway generates itself: status, code, message, the request's own id,
// and its audit line.
func TestRefusals(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		switch {
		case strings.Contains(body, "slow-401"):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			echo(w, body, r)
		}
	})
	r := newRig(t, basic(up.URL)+"    - id: rest\n      action: allow\n      when: {tool_name: slow-401}\nallowed_protocol_versions: [2025-06-18]\n")
	tests := []struct {
		name    string
		method  string
		body    string
		headers []string
		status  int
		code    int
		message string
		id      string
		action  string
		kind    string
	}{
		{name: "a deny rule", body: call("1", "danger"), status: 403, code: -32001, message: "policy_denied", id: "1", action: "deny"},
		{name: "default deny", body: call(`"x"`, "unknown"), status: 403, code: -32001, message: "policy_denied", id: `"x"`, action: "deny"},
		{name: "no key", body: call("2", "safe"), headers: []string{"Authorization", ""}, status: 401, code: -32005, message: "unauthorized", id: "2", kind: "unauthorized"},
		{name: "a wrong key", body: call("3", "safe"), headers: []string{"Authorization", "Bearer svc_gw_alice_" + strings.Repeat("A", 43)}, status: 401, code: -32005, message: "unauthorized", id: "3", kind: "unauthorized"},
		{name: "invalid JSON", body: `{"jsonrpc":`, status: 400, code: -32700, message: "parse_error", id: "null", kind: "invalid_json"},
		{name: "duplicate names", body: `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"safe","name":"danger"}}`, status: 400, code: -32600, message: "invalid_request", id: "4", kind: "duplicate_member"},
		{name: "a case variant of a member", body: `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"safe","Name":"danger"}}`, status: 400, code: -32600, message: "invalid_request", id: "5", kind: "case_variant_member"},
		{name: "a batch", body: "[" + call("6", "safe") + "]", status: 400, code: -32600, message: "invalid_request", id: "null", kind: "batch_not_supported"},
		{name: "a tool call without a name", body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}`, status: 400, code: -32602, message: "invalid_params", id: "7", kind: "invalid_tool_name"},
		{name: "a compressed body", body: call("8", "safe"), headers: []string{"Content-Encoding", "gzip"}, status: 415, code: -32600, message: "unsupported_media_type", id: "8", kind: "unsupported_media_type"},
		{name: "another media type", body: call("9", "safe"), headers: []string{"Content-Type", "text/plain"}, status: 415, code: -32600, message: "unsupported_media_type", id: "9", kind: "unsupported_media_type"},
		{name: "a foreign origin", body: call("10", "safe"), headers: []string{"Origin", "https://evil.example.com"}, status: 403, code: -32600, message: "origin_not_allowed", id: "10", kind: "origin_not_allowed"},
		{name: "a rebound host", body: call("11", "safe"), headers: []string{"Host", "evil.example.com"}, status: 403, code: -32600, message: "origin_not_allowed", id: "11", kind: "origin_not_allowed"},
		{name: "an unknown session", body: call("12", "safe"), headers: []string{"Mcp-Session-Id", "made-up"}, status: 404, code: -32600, message: "session_not_found", id: "12", kind: "session_not_found"},
		{name: "a revision that is not allowed", body: call("13", "safe"), headers: []string{"MCP-Protocol-Version", "2025-11-25"}, status: 400, code: -32022, message: "unsupported_protocol_version", id: "13", kind: "unsupported_protocol_version"},
		{name: "a denied notification", body: `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, status: 403, code: -32001, message: "policy_denied", id: `""`, action: "deny"},
		{name: "PUT", method: http.MethodPut, body: "{}", status: 405, code: -32600, message: "method_not_allowed", id: "null", kind: "method_not_allowed"},
		{name: "an upstream that wants credentials", body: call("14", "slow-401"), status: 502, code: -32603, message: "upstream_unauthorized", id: "14", action: "allow", kind: "upstream_unauthorized"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = http.MethodPost
			}
			before := len(up.seen())
			got := r.do(method, r.url, tt.body, tt.headers...)
			e := got.rpc(t)
			if got.status != tt.status || e.Error.Code != tt.code || e.Error.Message != tt.message || string(e.ID) != tt.id {
				t.Errorf("got %d %s", got.status, got.body)
			}
			if e.Error.Data["reason"] == "" || e.Error.Data["request_id"] == "" {
				t.Errorf("error.data lacks reason or request_id: %s", got.body)
			}
			if ct := got.header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("content type %q", ct)
			}
			if tt.status != 502 && len(up.seen()) != before {
				t.Error("the upstream was contacted")
			}
			line := r.lines(i + 1)[i]
			action := tt.action
			if action == "" {
				action = "deny"
			}
			kind, _ := line["error_kind"].(string)
			if line["action"] != action || kind != tt.kind || line["status"] != float64(tt.status) {
				t.Errorf("audit line %v, want action %s and error_kind %q", line, action, tt.kind)
			}
		})
	}
}

func TestBodyOver16MiBIs413(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	big := strings.Replace(call("1", "safe"), "{}", `{"x":"`+strings.Repeat("a", 16<<20)+`"}`, 1)
	got := r.post(big)
	if e := got.rpc(t); got.status != 413 || e.Error.Code != -32600 || e.Error.Message != "request_too_large" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if len(up.seen()) != 0 {
		t.Error("the upstream was contacted")
	}
}

func TestNoRoute(t *testing.T) {
	up := newUpstream(t, echo)
	text := strings.Replace(basic(up.URL), `match: {tool_name: "*"}`, "match: {tool_name: other}", 1)
	r := newRig(t, strings.Replace(text, "default_upstream: main", `default_upstream: ""`, 1))
	for _, body := range []string{call("1", "safe"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`} {
		got := r.post(body)
		if e := got.rpc(t); got.status != 404 || e.Error.Code != -32601 || e.Error.Message != "no_route" || string(e.ID) != "1" {
			t.Errorf("got %d %s", got.status, got.body)
		}
	}
}

func TestUpstreamUnreachable(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	up.Close()
	got := r.post(call("1", "safe"))
	if e := got.rpc(t); got.status != 502 || e.Error.Code != -32603 || e.Error.Message != "upstream_unreachable" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if line := r.lines(1)[0]; line["error_kind"] != "upstream_unreachable" || line["action"] != "allow" {
		t.Errorf("audit line %v", line)
	}
	if ready := r.do(http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+"/readyz", ""); ready.status != 200 {
		t.Errorf("an unreachable upstream made /readyz answer %d", ready.status)
	}
}

func TestHealthAndReadiness(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	base := strings.TrimSuffix(r.url, "/mcp")
	if got := r.do(http.MethodGet, base+"/healthz", ""); got.status != 200 || got.body != "ok" {
		t.Errorf("healthz: %d %q", got.status, got.body)
	}
	if got := r.do(http.MethodGet, base+"/readyz", ""); got.status != 200 || got.body != `{"status":"ok"}` {
		t.Errorf("readyz: %d %q", got.status, got.body)
	}
	r.gateway.Drain()
	if got := r.do(http.MethodGet, base+"/readyz", ""); got.status != 503 || got.body != "" {
		t.Errorf("readyz while draining: %d %q, want 503 and an empty body", got.status, got.body)
	}
	if got := r.do(http.MethodGet, base+"/healthz", ""); got.status != 200 {
		t.Errorf("healthz while draining: %d", got.status)
	}
	if got := r.post(call("1", "safe")); got.status != 200 {
		t.Errorf("a request while draining: %d", got.status)
	}
	r.lines(1) // probes write no audit line
}

func TestRedactRequest(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, strings.Replace(basic(up.URL), "    - id: tools\n", "    - id: hide\n      action: redact\n      redact: [{regex: 'AKIA[A-Z0-9]{4}', replacement: 'XXXX'}, {regex: 'safe', replacement: 'danger'}]\n      when: {tool_name: slow}\n    - id: tools\n", 1))
	r.post(strings.Replace(call("1", "slow"), "{}", `{"k":"AK\u0049A1234"}`, 1))
	if got := up.seen()[0].body; !strings.Contains(got, `{"k":"XXXX"}`) {
		t.Errorf("upstream got %s", got)
	}
	got := r.post(strings.Replace(call("1", "slow"), "{}", `{"k":"x"}`, 1), "Mcp-Param-K", "x", "Mcp-Param-Gone", "AKIA9999")
	if h := up.seen()[1].header; h.Get("Mcp-Param-K") != "x" || h.Get("Mcp-Param-Gone") != "" {
		t.Errorf("mirrored headers after a redaction: %v", h)
	}
	if got.status != 200 {
		t.Errorf("got %d", got.status)
	}
	if line := r.lines(2)[0]; line["action"] != "redact" || line["rule_id"] != "hide" {
		t.Errorf("audit line %v", line)
	}
}

func TestAuditRefusesTrafficThatCannotBeRecorded(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	// Every later line fails: the audit log is closed.
	if err := r.services().Audit.Close(); err != nil {
		t.Fatal(err)
	}
	got := r.post(call("1", "safe"))
	if e := got.rpc(t); got.status != 503 || e.Error.Message != "audit_unavailable" {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

func TestPanicIsAnsweredAndRecorded(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	r.services().Targets["main"].Transport = nil // the next forward panics with a nil dereference
	got := r.post(call("1", "safe"))
	if got.status != 500 || strings.Contains(got.body, "goroutine") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if line := r.lines(1)[0]; line["error_kind"] != "panic" {
		t.Errorf("audit line %v", line)
	}
	r.services().Targets = map[string]*upstream.Upstream{}
	if got := r.do(http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+"/healthz", ""); got.status != 200 {
		t.Error("the process does not go on")
	}
}
