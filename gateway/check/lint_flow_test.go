package check

import (
	"slices"
	"strings"
	"testing"
)

// The findings about labels, each as its code with the names in its message.
func TestFlowFindings(t *testing.T) {
	const (
		web   = "    - {name: untrusted, tool_prefix: web_}\n"
		stop  = "    - {id: stop, action: deny, when: {tool_regex: \"web_.*|mail_send\", labels_any: [untrusted]}}\n"
		named = "    - {id: allow, action: allow, when: {tool_name: mail_send}}\n"
	)
	rule := func(id, action, when string) string {
		return "    - {id: " + id + ", action: " + action + ", when: {" + when + "}}\n"
	}
	for _, c := range []struct {
		name, labels, rules, rest string
		want                      []string
	}{
		{"nothing to report", web, stop, "", nil},
		{"a label that nobody declares", web, rule("r", "deny", "labels_any: [private]"), "", []string{"unknown-label private"}},
		{"an exception above", web, named + stop, "", nil},
		{"an allow above that overlaps", web, rule("a", "allow", `tool_glob: "mail_*"`) + stop, "", []string{"flow-hidden stop a"}},
		{"an allow above that hides it all", web, rule("a", "allow", `tool_glob: "*"`) + stop, "", []string{"shadowed-rule stop a"}},
		{"an allow below", web, stop + rule("a", "allow", `tool_glob: "*"`), "", nil},
		{"a deny above", web, rule("a", "deny", `tool_glob: "mail_*"`) + stop, "", nil},
		{"weaker labels above", web, rule("a", "deny", `tool_glob: "*", labels_any: [untrusted]`) + rule("b", "deny", "tool_name: x, labels_all: [untrusted]"), "", []string{"shadowed-rule b a"}},
		{"stronger labels above", web + "    - {name: private, tool_name: crm}\n", rule("a", "deny", `tool_glob: "*", labels_all: [untrusted, private]`) + rule("b", "deny", "tool_name: x, labels_all: [untrusted]"), "", nil},
		{"an approval above, by labels", web, strings.Replace(rule("a", "allow", `tool_glob: "*", labels_any: [untrusted]`), "}}", "}, approval: {not_self: false}}", 1) + rule("b", "allow", "tool_name: x"), "", nil},
		{"no tool name", "    - {name: untrusted, tool_regex: \"a\\\\n\"}\n", stop, "", []string{"flow-label-unset untrusted stop"}},
		{"a label of an upstream", "    - {name: untrusted, upstreams: [tools]}\n", stop, "", nil},
		{"no tool is restricted", web, rule("r", "deny", "tool_name: mail_send, labels_any: [untrusted]"), "", []string{"flow-reader-sends untrusted"}},
		{"a rule that observes restricts none", web, strings.Replace(stop, "action", "mode: observe, action", 1), "", []string{"observing-rule stop"}},
		{"every message is restricted", web, rule("r", "deny", "labels_any: [untrusted]"), "", nil},
		{"replicas", web, stop, "sessions: {key_file: /k}\n", []string{"flow-not-shared"}},
	} {
		found := lintRun("control_plane: {url: \"https://control.example\", ingest_key: \"${INGEST_KEY}\", governance: {enabled: true}}\nupstreams: [{name: tools, url: \"http://127.0.0.1:3000/mcp\"}]\ndefault_upstream: tools\nroutes: [{match: {tool_name: \"*\"}, upstream: tools}]\n" +
			c.rest + "data_flow:\n  labels:\n" + c.labels + "policy:\n  default_action: deny\n  filter_lists: true\n  rules:\n" + c.rules)
		var got []string
		for _, f := range found {
			switch f.Code {
			case "env-unset", "tool-without-route", "catch-all-deny", "wildcard-above-rate-limit", "approval-by-address", "approval-no-owner", "approval-not-shared":
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
		if !slices.Equal(got, c.want) && strings.Join(got, ",") != strings.Join(c.want, ",") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
