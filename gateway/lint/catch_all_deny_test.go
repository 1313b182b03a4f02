package lint

import (
	"slices"
	"testing"

	"svc/gateway/diag"
)

// A deny for everything is reported if a call above it may cause a server request, and no rule
// above it decides on answers.
func TestCatchAllDeny(t *testing.T) {
	const tools, rest = "    - {id: tools, action: allow, when: {tool_glob: \"*\"}}\n", "    - {id: rest, action: deny, when: {}}\n"
	for _, c := range []struct {
		name, rules string
		want        bool
	}{
		{"below an allow", tools + rest, true},
		{"written as a tool name", tools + "    - {id: rest, action: deny, when: {tool_name: \"*\"}}\n", true},
		{"for both directions", tools + "    - {id: rest, action: deny, when: {direction: \"\"}}\n", true},
		{"for some callers", tools + "    - {id: rest, action: deny, when: {claims: {groups: [guests]}}}\n", true},
		{"alone", rest, false},
		{"below denies", "    - {id: no, action: deny, when: {tool_name: rm}}\n" + rest, false},
		{"below an allow for everything", "    - {id: all, action: allow, when: {}}\n" + rest, false},
		{"for tools", tools + "    - {id: rest, action: deny, when: {tool_glob: \"rm*\"}}\n", false},
		{"for a method", tools + "    - {id: rest, action: deny, when: {method: tasks/get}}\n", false},
		{"for answers of servers", tools + "    - {id: rest, action: deny, when: {direction: server_to_client}}\n", false},
		{"tried out", tools + "    - {id: rest, action: deny, mode: observe, when: {}}\n", false},
	} {
		found := run("policy:\n  default_action: deny\n  rules:\n" + c.rules)
		got := slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Code == "catch-all-deny" })
		if got != c.want {
			t.Errorf("%s: reported %v, want %v: %v", c.name, got, c.want, found)
		}
	}
}
