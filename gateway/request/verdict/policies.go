package verdict

import (
	"errors"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/plane"
	"svc/gateway/refusal"
)

// policies applies the policies of the control plane, after the rules, and
// continues with the rewritten message.
func (in *Input) policies(m *mcp.Message, r *Result) {
	set, refused := in.Host.Policies()
	if refused != nil {
		r.refuse(refused, audit.ActionDeny)
		return
	}
	phase := plane.Request
	if in.Direction == policy.ServerToClient {
		phase = plane.Response
	}
	if set.Empty(phase) {
		return
	}
	about := plane.Input{Message: m, Now: in.Now}
	in.nameTool(m, &about)
	if set.UsesLabels() {
		about.Labels = in.Flow.In(in.Labels)
		if o := &in.Origin; in.Belongs && phase == plane.Request {
			about.Continues = &plane.Continued{Tool: o.Tool, HasTool: o.Tool != "",
				AnyTool: o.Method == "" || o.Method == mcp.MethodToolsCall && o.Tool == ""}
		}
	}
	if phase == plane.Response && set.MakesTokens() {
		about.Tokens = in.Host.Tokens(in.Upstream)
		if !in.Resumed {
			about.Asked = in.Asked.Method
		}
		if !about.HasTool || m.Kind != mcp.Response {
			about.Tokens.Misfits = nil
		}
	}
	v := set.Judge(phase, &about)
	r.Governed = Governed{
		Fired: v.Fired, Score: v.Score, Entities: v.Entities, Scan: v.Scan, All: v.All, ByArguments: v.ByArguments,
		Tokens: v.Tokens,
	}
	for _, p := range v.Asks {
		r.Asks = append(r.Asks, Ask{PolicyID: p.ID, Approval: p.Approval})
	}
	switch refused := denial(&v); {
	case refused != nil:
		r.refuse(refused, audit.ActionDeny)
		r.Rule, r.Governed.Blocked = "", true // no rule has blocked it
	case v.Changed:
		in.rewrite(m, &v.Redacted, "", r)
		if r.Refused != nil {
			r.Rule = "" // no rule has changed it
			return
		}
		r.Governed.Changed = true
		r.Action = audit.ActionRedact
	case len(v.Fired) > 0 && r.Action == "":
		r.Action = audit.ActionAllow
	}
}

// nameTool sets the tool of a message. For the result of a task, and for a response
// on a resumed stream, the tool is unknown and may be any.
func (in *Input) nameTool(m *mcp.Message, about *plane.Input) {
	called := m
	if in.Direction == policy.ServerToClient {
		called = in.Asked
	}
	switch {
	case called.Method == mcp.MethodToolsCall:
		about.Tool, about.HasTool = called.Name, true
	case in.Direction == policy.ServerToClient && (in.deferred(m) || in.Resumed && m.Kind == mcp.Response):
		about.AnyTool = true
	}
}

// denial is the refusal of a blocked message, nil for others.
func denial(v *plane.Verdict) *refusal.Refusal {
	switch {
	case v.Block != nil:
		return refusal.GovernanceBlock.WithDetail(v.Block.Message)
	case errors.Is(v.Err, plane.ErrArgumentType):
		return &refusal.ArgumentType
	case errors.Is(v.Err, plane.ErrArgumentLimit):
		return &refusal.ArgumentLimit
	case errors.Is(v.Err, plane.ErrTooMuchText):
		return &refusal.GovernanceTooLarge
	case v.Err != nil:
		return &refusal.GovernanceRedact
	}
	return nil
}
