package check

import (
	"slices"
	"strings"
	"testing"
)

// The findings about rules with approval, each as its code with the rules that it names.
func TestApprovalFindings(t *testing.T) {
	const (
		plane = "control_plane: {url: \"https://control.example\", ingest_key: \"${INGEST_KEY}\", governance: {enabled: true}}\n"
		pays  = "    - {id: a, action: allow, when: {tool_prefix: pay_}, approval: {}}\n"
		none  = "auth: {enabled: false}\n"
		hash  = "hash: \"$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$2Yqx0mJ5m0b5i7k7Yk6m3o0pF9rj4mF1uB3c2tq3y0E\""
		other = "hash: \"$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdQ$2Yqx0mJ5m0b5i7k7Yk6m3o0pF9rj4mF1uB3c2tq3y0E\""
		keys  = "auth: {enabled: true, keys: [{id: bob, " + hash + ", owner: bob@example.com}, {id: k, " + other + "}]}\n"
		redis = "rate_limit_store: {type: redis, url: \"redis://127.0.0.1:6379/0\"}\n"
	)
	deny := func(when string) string { return "    - {id: b, action: deny, when: {" + when + "}}\n" }
	redact := func(when string) string {
		return "    - {id: b, action: redact, when: {" + when + "}, redact: [{regex: x1, replacement: y}]}\n"
	}
	for _, c := range []struct {
		name, rules, rest string
		want              []string // code and ids
	}{
		{"a deny below", pays + deny("tool_name: pay_all"), "", []string{"approval-shadows a b"}},
		{"a deny above", deny("tool_name: pay_all") + pays, "", nil},
		{"a deny of other tools", pays + deny("tool_prefix: delete_"), "", nil},
		{"a deny that overlaps", pays + deny(`tool_glob: "*_all"`), "", []string{"approval-shadows a b"}},
		{"a deny for the rest", pays + deny("method: tools/call"), "", nil},
		{"a deny for some callers", pays + deny("claims: {groups: [temps]}"), "", []string{"approval-shadows a b"}},
		{"callers who are never both", "    - {id: a, action: allow, when: {tool_prefix: pay_, claims: {subject_in: [x]}}, approval: {}}\n" + deny("claims: {subject_in: [y]}"), "", nil},
		{"a deny of another upstream", "    - {id: a, action: allow, when: {upstream: [tools]}, approval: {}}\n" + deny("upstream: [other], tool_name: x"),
			"upstreams: [{name: tools, url: \"http://127.0.0.1:3000/mcp\"}, {name: other, url: \"http://127.0.0.1:3001/mcp\"}]\ndefault_upstream: tools\nroutes: [{match: {tool_name: x}, upstream: other}, {match: {tool_name: \"*\"}, upstream: tools}]\n", nil},
		{"a redact for everything", pays + redact(`tool_name: "*"`), "", []string{"approval-shadows a b"}},
		{"a redact of responses", pays + redact(`tool_name: "*", direction: server_to_client`), "", nil},
		{"an allow below", pays + "    - {id: b, action: allow, when: {tool_name: pay_all}}\n", "", []string{"shadowed-rule b a"}},
		{"a deny of prompts", "    - {id: a, action: allow, when: {}, approval: {}}\n" + deny("method: prompts/get"), "", []string{"approval-shadows a b"}},
		{"a deny of lists", "    - {id: a, action: allow, when: {}, approval: {}}\n" + deny("method: tools/list"), "", nil},
		{"an approval that only observes", strings.Replace(pays, "action", "mode: observe, action", 1) + deny("tool_name: pay_all"), none, []string{"observing-rule a"}},
		{"callers are addresses", pays, none, []string{"approval-by-address a"}},
		{"a key without owner", pays, keys, []string{"approval-no-owner k a"}},
		{"a key without owner, strict", strings.Replace(pays, "{}", "{not_self: strict}", 1), keys, []string{"approval-no-owner k a"}},
		{"a key that may decide itself", strings.Replace(pays, "{}", "{not_self: false}", 1), keys, nil},
		{"replicas with own keys", pays, redis, []string{"approval-not-shared a"}},
		{"replicas with one key", pays, redis + "sessions: {key_file: /k}\n", nil},
	} {
		found := lintRun(plane + c.rest + "policy:\n  default_action: deny\n  filter_lists: true\n  rules:\n" + c.rules)
		var got []string
		for _, f := range found {
			switch f.Code {
			case "env-unset", "redact-request-only", "session-key-not-shared", "catch-all-deny", "tool-without-route", "catch-all-allow", "needless-discovery-rule":
				continue
			}
			s := f.Code
			for i, part := range strings.Split(f.Message, `"`) {
				if i%2 == 1 {
					s += " " + part
				}
			}
			got = append(got, s)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
