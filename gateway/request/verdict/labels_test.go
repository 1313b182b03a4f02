package verdict

import (
	"testing"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
	"svc/gateway/session"
	"svc/store/api"
)

// A policy with data_flow judges what a client sends about a call as the call.
func TestPoliciesLookAtTheCallOfAnAnswer(t *testing.T) {
	names := flow.NewNames("private")
	set := policiesOf(t, api.GovernancePolicy{ID: "p", Action: "block", Approval: &api.Approval{}, Condition: api.Condition{Type: "data_flow", LabelsAny: []string{"private"}, ToolName: "send"}})
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`
	for _, c := range []struct {
		name    string
		text    string
		belongs bool
		origin  session.Origin
		labels  flow.Labels
		refused bool
	}{
		{"of the tool", answer, true, session.Origin{Method: mcp.MethodToolsCall, Tool: "send"}, 1, true},
		{"without labels", answer, true, session.Origin{Method: mcp.MethodToolsCall, Tool: "send"}, 0, false},
		{"of another tool", answer, true, session.Origin{Method: mcp.MethodToolsCall, Tool: "read"}, 1, false},
		{"of a tool that is not known", answer, true, session.Origin{Method: mcp.MethodToolsCall}, 1, true},
		{"of a call that is not known", answer, true, session.Origin{}, 1, true},
		{"of a prompt", answer, true, session.Origin{Method: mcp.MethodPromptsGet}, 1, false},
		{"of no call", answer, false, session.Origin{}, 1, false},
	} {
		in := inputOf(t, snapshotOf(t, "http://127.0.0.1:1/", ruleOf(policy.Allow, policy.ClientToServer)), way{direction: policy.ClientToServer}, nil, &asking{set: set})
		in.Flow, in.Labels, in.Belongs, in.Origin = names, c.labels, c.belongs, c.origin
		if r := Judge(in, scan(t, c.text)); (r.Refused != nil) != c.refused || c.refused && !r.Governed.Blocked {
			t.Errorf("%s: refused %v", c.name, r.Refused)
		}
	}
}
