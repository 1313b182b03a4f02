package verdict

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/plane"
	"svc/gateway/refusal"
	"svc/store/api"
)

// asking is a host with policies.
type asking struct {
	host
	set *plane.Set
}

func (h *asking) Policies() (*plane.Set, *refusal.Refusal) { return h.set, nil }

// policiesOf compiles policies for all agents and the phase request.
func policiesOf(t *testing.T, list ...api.GovernancePolicy) *plane.Set {
	t.Helper()
	for i := range list {
		p := &list[i]
		p.Phase, p.On = "request", "*"
		if p.Condition.Type == "" {
			p.Condition = api.Condition{Type: "tool_name", ToolName: "lookup"}
		}
	}
	b, err := plane.Compile(&api.Governance{Policies: append([]api.GovernancePolicy{}, list...), HashKey: base64.StdEncoding.EncodeToString(make([]byte, 32))}, plane.Built{})
	if err != nil {
		t.Fatal(err)
	}
	return b.For("any")
}

// asksOf returns the ids of what asks.
func asksOf(r *Result) string {
	var list []string
	for _, a := range r.Asks {
		list = append(list, a.RuleID+a.PolicyID+" "+a.ValidFor.String())
	}
	return strings.Join(list, ", ")
}

// What asks for approval is collected in one pass, the rule first; a refusal leaves nothing to ask.
func TestAsksAreCollected(t *testing.T) {
	allow := ruleOf(policy.Allow, policy.ClientToServer)
	asks := ruleOf(policy.Allow, policy.ClientToServer)
	asks.Approval = new(policy.ApprovalConfig)
	asks.Approval.SetDefaults()
	shadow := asks
	shadow.Mode = policy.ModeObserve
	p := func(id, valid string) api.GovernancePolicy {
		return api.GovernancePolicy{ID: id, Action: "block", Approval: &api.Approval{ValidFor: valid}}
	}
	for _, c := range []struct {
		name     string
		rule     policy.RuleConfig
		policies []api.GovernancePolicy
		asks     string
		refused  *refusal.Refusal
		observed string
	}{
		{"a rule", asks, nil, "r 1h0m0s", nil, ""},
		{"a policy", allow, []api.GovernancePolicy{p("p", "5m")}, "p 5m0s", nil, ""},
		{"a rule and two policies", asks, []api.GovernancePolicy{p("p", "5m"), p("q", "6m")}, "r 1h0m0s, p 5m0s, q 6m0s", nil, ""},
		{"and a block", asks, []api.GovernancePolicy{p("p", "5m"), {ID: "b", Action: "block"}}, "", &refusal.GovernanceBlock, ""},
		{"and a redaction", asks, []api.GovernancePolicy{{ID: "x", Action: "redact", RedactionStrategy: "mask", Condition: api.Condition{Type: "always"}}}, "r 1h0m0s", nil, ""},
		{"a rule that denies", ruleOf(policy.Deny, policy.ClientToServer), []api.GovernancePolicy{p("p", "5m")}, "", &refusal.Policy, ""},
		{"a rule in mode observe", shadow, []api.GovernancePolicy{p("p", "5m")}, "", &refusal.Policy, "required"},
	} {
		in := inputOf(t, snapshotOf(t, "http://127.0.0.1:1/", c.rule), ways[0], nil, &asking{set: policiesOf(t, c.policies...)})
		r := Judge(in, scan(t, toolCall))
		if got := asksOf(&r); got != c.asks || (r.Refused == nil) != (c.refused == nil) || c.refused != nil && r.Kind != c.refused.Kind {
			t.Errorf("%s: asks %q, refused %+v", c.name, got, r.Refused)
		}
		var observed string
		for _, o := range r.Observed {
			if o.Action == audit.ActionAllow {
				observed += o.Approval
			}
		}
		if observed != c.observed {
			t.Errorf("%s: observed %+v", c.name, r.Observed)
		}
	}
}

// A tool that needs approval, by a rule or a policy, stays in lists; a tool that a policy blocks does
// not.
func TestToolsThatNeedApprovalAreListed(t *testing.T) {
	asks := ruleOf(policy.Allow, policy.ClientToServer)
	asks.Approval = new(policy.ApprovalConfig)
	asks.Approval.SetDefaults()
	s := snapshotOf(t, "http://127.0.0.1:1/", asks)
	caller := &auth.Principal{Kind: auth.KindKey, Value: "alice"}
	set := policiesOf(t, api.GovernancePolicy{ID: "p", Action: "block", Approval: &api.Approval{}},
		api.GovernancePolicy{ID: "b", Action: "block", Condition: api.Condition{Type: "tool_name", ToolName: "wipe"}})
	var listed []string
	for _, tool := range []string{"lookup", "wipe"} {
		if s.MayAsk(caller, set, "", mcp.Tool, tool) {
			listed = append(listed, tool)
		}
	}
	if !slices.Equal(listed, []string{"lookup"}) || !s.MayAsk(caller, set, "", mcp.Resource, "x:y") {
		t.Errorf("listed %v", listed)
	}
}
