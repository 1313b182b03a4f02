package main

import (
	"fmt"
	"testing"
)

const denied, deniedCode = "policy_denied", -32001

// The policy rule grammar, its matching rules and the actions, tested with the
// program itself (gateway specification, Policy rule grammar to Server-to-client
// frames).
func TestContractPolicy(t *testing.T) {
	u := newTools(t)
	g := newGate(t, fmt.Sprintf(`
upstreams: [{name: u, url: %q}]
default_upstream: u
routes: [{match: {tool_glob: "*"}, upstream: u}]
policy:
  default_action: deny
  rules:
    - {id: exact, action: deny, when: {tool_name: exact}}
    - {id: prefix, action: deny, when: {tool_prefix: pre_}}
    - {id: glob, action: deny, when: {tool_glob: "g?[ab]*z"}}
    - {id: regex, action: deny, when: {tool_regex: "r|rr+x"}}
    - {id: listed, action: deny, when: {tool_name_in: [in1, in2]}}
    - {id: method, action: deny, when: {method: resources/read}}
    - {id: both, action: deny, when: {tool_prefix: both, method: tools/call, direction: client_to_server}}
    - {id: never, action: deny, when: {tool_prefix: o, method: prompts/get}}
    - {id: claims, action: deny, when: {tool_name: "*", claims: {groups: [a]}}}
    - {id: no-claims, action: deny, when: {tool_name: emptyclaims, claims: {groups: []}}}
    - {id: cut, action: redact, when: {tool_name: cut}, redact: [{regex: "AKIA([0-9])[0-9]+", replacement: "<$1>"}, {regex: "<1>", replacement: "second"}]}
    - {id: breaks, action: redact, when: {tool_name: breaks}, redact: [{regex: "\"arguments\"", replacement: "arguments"}]}
    - {id: slow, action: rate_limit, when: {tool_name: limited}, tokens_per_second: 0.001}
    - {id: strip, action: strip_app, when: {tool_glob: "*ui*"}}
    - {id: input, action: deny, when: {direction: server_to_client, result_type: input_required}}
    - {id: log, action: deny, when: {direction: server_to_client, method: notifications/message}}
    - {id: hide, action: redact, when: {direction: server_to_client, method: notifications/progress}, redact: [{regex: secret, replacement: hidden}]}
    - {id: few, action: rate_limit, when: {direction: server_to_client, method: notifications/other}, tokens_per_second: 0.001, burst: 2}
    - {id: shadowed, action: allow, when: {tool_name: exact}}
    - {id: ok, action: allow, when: {tool_regex: "ok.*|input|sse-.*|EXACT|xexact|rx|gzazy"}}
`, u.URL))
	deny := func(name, body, rule string) expect {
		return expect{name: name, body: body, status: 403, code: deniedCode, message: denied, reaches: "-",
			line: map[string]any{"action": "deny", "rule_id": rule, "status": 403}}
	}
	pass := func(name, body, rule string) expect {
		return expect{name: name, body: body, status: 200, reaches: "q-1", line: map[string]any{"action": "allow", "rule_id": rule}}
	}
	tests := []expect{
		deny("tool_name is exact, and the first match wins", toolCall("exact"), "exact"),
		pass("tool_name minds the case", toolCall("EXACT"), "ok"),
		deny("tool_prefix", toolCall("pre_x"), "prefix"),
		deny("tool_glob", toolCall("gxbz"), "glob"),
		pass("tool_glob is whole, from end to end", toolCall("gzazy"), "ok"),
		deny("tool_regex", toolCall("rrrx"), "regex"),
		pass("tool_regex is anchored", toolCall("rx"), "ok"),
		deny("tool_name_in", toolCall("in2"), "listed"),
		deny("a name of no list", toolCall("in3"), "default_deny"),
		deny("method", rpc("resources/read", `{"uri":"x:y"}`), "method"),
		deny("a matcher with method and direction", toolCall("both1"), "both"),
		pass("a tool matcher never sees another method; claims match no caller without a token", toolCall("ok"), "ok"),
		deny("an empty list of claims is no constraint", toolCall("emptyclaims"), "no-claims"),
		{name: "redact", body: toolCall("cut"), status: 200, reaches: `"a":"second"`, answer: "second",
			line: map[string]any{"action": "redact", "rule_id": "cut"}},
		{name: "redact that breaks the message", body: toolCall("breaks"), status: 403, code: deniedCode, message: denied, reaches: "-",
			line: map[string]any{"action": "deny", "rule_id": "breaks", "error_kind": "redact_invalid"}},
		{name: "rate_limit: burst is 1", body: toolCall("limited"), status: 200, line: map[string]any{"action": "allow", "rule_id": "slow"}},
		{name: "rate_limit: empty", body: toolCall("limited"), status: 429, code: -32003, message: "rate_limited", reaches: "-",
			line: map[string]any{"action": "rate_limit_blocked", "rule_id": "slow"}},
		{name: "rate_limit: a session id is no part of the key", body: toolCall("limited"), header: []string{"X-Forwarded-For", "9.9.9.9"},
			status: 429, code: -32003, message: "rate_limited"},
		{name: "strip_app", body: toolCall("ui"), status: 200, answer: `^\{"jsonrpc":"2.0","id":"q-1","result":\{"content":\[\{"type":"text","text":"plain"\}\]\}\}$`,
			line: map[string]any{"action": "strip_app", "rule_id": "strip", "stripped": 2}},
		{name: "strip_app with nothing left", body: toolCall("ui-only"), status: 200, answer: `"result":\{\}`, line: map[string]any{"action": "strip_app", "stripped": 1}},
		{name: "strip_app in a stream", body: toolCall("sse-ui"), status: 200, answer: `hidden(?s:.*)"content":\[\{"type":"text","text":"plain"\}\]`,
			line: map[string]any{"action": "strip_app", "stripped": 2}},
		{name: "result_type in JSON", body: toolCall("input"), status: 403, code: deniedCode, message: denied, line: map[string]any{"action": "deny", "rule_id": "input"}},
		{name: "result_type in a stream", body: toolCall("sse-input"), status: 200, answer: `"error":\{"code":-32001`},
		{name: "resultType in a request triggers nothing", body: rpc("tools/call", `{"name":"ok","resultType":"input_required","result":{"resultType":"input_required"}}`),
			status: 200, line: map[string]any{"rule_id": "ok"}},
		{name: "deny drops a frame", body: toolCall("sse-log"), status: 200, answer: `^data: \{"jsonrpc":"2.0","id":"q-1","result"|^event: message\ndata: \{"jsonrpc":"2.0","id":"q-1","result"`},
		{name: "redact rewrites frames", body: toolCall("sse-progress"), status: 200, answer: `(hidden(?s:.*)){3}"result"`},
		{name: "rate_limit throttles frames, and an ordinary stream ends at 10,000", body: toolCall("sse-many"), status: 200,
			answer: `^((?:id|event|data): .*\n)+\n((?:id|event|data): .*\n)+\n((?:id|event|data): .*\n)+\n$`, line: map[string]any{"error_kind": "sse_truncated"}},
	}
	for _, method := range []string{"initialize", "ping", "server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
		tests = append(tests, expect{name: "default deny passes " + method, status: 200, reaches: method,
			body: rpc(method, `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}`)})
	}
	for _, method := range []string{"notifications/initialized", "notifications/cancelled"} {
		tests = append(tests, expect{name: "default deny passes " + method, status: 202, reaches: method,
			body: fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"requestId":"none"}}`, method)})
	}
	for _, method := range []string{"subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel", "prompts/get", "completion/complete", "logging/setLevel", "x/y"} {
		tests = append(tests, deny("default deny refuses "+method, rpc(method, `{"taskId":"t","name":"n","uri":"x:y"}`), "default_deny"))
	}
	tests = append(tests, expect{name: "default deny refuses other notifications", status: 403, reaches: "-",
		body: `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`, line: map[string]any{"rule_id": "default_deny"}})
	g.hold(t, u, tests)
}
