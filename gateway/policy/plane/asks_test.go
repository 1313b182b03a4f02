package plane

import (
	"encoding/json"
	"testing"
	"time"

	"svc/store/api"
)

// A block with approval asks in place of blocking, for the three kinds of requests that a person can
// be asked about, and a plain block wins.
func TestPoliciesThatAsk(t *testing.T) {
	ask := func(id string, c api.Condition) api.GovernancePolicy {
		return api.GovernancePolicy{ID: id, Condition: c, Action: "block", Approval: &api.Approval{ValidFor: "5m"}}
	}
	always, tool := api.Condition{Type: "always"}, api.Condition{Type: "tool_name", ToolName: "s*"}
	within := api.Condition{Type: "tool_arguments", ToolName: "send", Arguments: json.RawMessage(`{"/path":{"path_within":"/srv"}}`)}
	block := api.GovernancePolicy{ID: "block", Condition: always, Action: "block"}
	mask := api.GovernancePolicy{ID: "mask", Condition: pii(), Action: "redact", RedactionStrategy: "mask"}
	const read = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a://b"}}`
	for _, row := range []struct {
		name     string
		policies []api.GovernancePolicy
		body     string
		asks     string // ids; "blocked" or "denied" where the request is refused
	}{
		{"a call", []api.GovernancePolicy{ask("a", always)}, callWith(`{}`), "a"},
		{"a resource", []api.GovernancePolicy{ask("a", always)}, read, "a"},
		{"a prompt", []api.GovernancePolicy{ask("a", always)}, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}`, "a"},
		{"a list", []api.GovernancePolicy{ask("a", always)}, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, ""},
		{"the answer of a client", []api.GovernancePolicy{ask("a", pii())}, `{"jsonrpc":"2.0","id":1,"result":{"m":"bob@example.com"}}`, ""},
		{"several", []api.GovernancePolicy{ask("a", always), ask("b", tool)}, callWith(`{}`), "a b"},
		{"by the tool", []api.GovernancePolicy{ask("a", tool)}, read, ""},
		{"by the argument", []api.GovernancePolicy{ask("a", within)}, callWith(`{"path":"/srv/x"}`), "a"},
		{"by another argument", []api.GovernancePolicy{ask("a", within)}, callWith(`{"path":"/etc"}`), ""},
		{"a missing argument", []api.GovernancePolicy{ask("a", within)}, callWith(`{}`), "a"},
		{"an argument of another type", []api.GovernancePolicy{ask("a", within)}, callWith(`{"path":1}`), "denied"},
		{"a budget", []api.GovernancePolicy{ask("a", api.Condition{Type: "budget_exceeded"})}, callWith(`{}`), "a"},
		{"a plain block above", []api.GovernancePolicy{block, ask("a", always)}, callWith(`{}`), "blocked"},
		{"a plain block below", []api.GovernancePolicy{ask("a", always), block}, callWith(`{}`), "blocked"},
		{"with a redaction", []api.GovernancePolicy{ask("a", always), mask}, callWith(`{"m":"bob@example.com"}`), "a"},
	} {
		g := bundle(row.policies...)
		g.Budgets = []api.BudgetState{{ID: "b", AgentName: "planner", Exceeded: true, ResetAt: moment.Add(time.Hour)}}
		b, err := Compile(g, plainDetectors{})
		if err != nil {
			t.Fatal(row.name, err)
		}
		v := b.For("planner").Judge(Request, input(row.body))
		got := ids(v.Asks)
		switch {
		case v.Block != nil:
			got += "blocked"
		case v.Err != nil:
			got += "denied"
		}
		if got != row.asks {
			t.Errorf("%s: %q, want %q", row.name, got, row.asks)
		}
		if redacts := len(row.policies) > 1 && row.policies[1].ID == "mask"; v.Changed != redacts {
			t.Errorf("%s: changed %v", row.name, v.Changed)
		}
		for _, p := range v.Asks {
			if p.Approval.ValidFor != 5*time.Minute || p.Approval.Expires != 24*time.Hour {
				t.Errorf("%s: %+v", row.name, p.Approval)
			}
		}
	}
}

// A tool that needs approval stays in lists.
func TestBlocksToolWithoutApproval(t *testing.T) {
	for _, approval := range []*api.Approval{nil, {}} {
		b, err := Compile(bundle(api.GovernancePolicy{Condition: api.Condition{Type: "tool_name", ToolName: "s*"}, Action: "block", Approval: approval}), plainDetectors{})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.For("planner").BlocksTool("send"); got != (approval == nil) {
			t.Errorf("with %+v: blocks %v", approval, got)
		}
	}
}

// A bundle with an approval that cannot be enforced is rejected as a whole.
func TestCompileRejectsApprovals(t *testing.T) {
	for name, p := range map[string]api.GovernancePolicy{
		"warn":              {Action: "warn", Approval: &api.Approval{}},
		"redact":            {Action: "redact", RedactionStrategy: "mask", Approval: &api.Approval{}},
		"responses":         {Action: "block", Phase: "response", Approval: &api.Approval{}},
		"an unknown value":  {Action: "block", Approval: &api.Approval{Show: "some"}},
		"a long time":       {Action: "block", Approval: &api.Approval{Expires: "169h"}},
		"a time in letters": {Action: "block", Approval: &api.Approval{ValidFor: "soon"}},
	} {
		p.Condition = api.Condition{Type: "always"}
		if _, err := Compile(bundle(p), plainDetectors{}); err == nil {
			t.Errorf("%s: compiled", name)
		}
	}
}
