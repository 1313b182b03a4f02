package verdict

import "svc/gateway/policy"

// restrict applies the rules by which labels restrict what a caller sends about an earlier call. A
// person cannot be asked about it, so that a rule with approval denies it.
func (in *Input) restrict(r *Result) {
	if !in.Belongs || in.Labels == 0 {
		return
	}
	q := policy.Request{
		Direction: policy.ClientToServer, Method: in.Origin.Method, Tool: in.Origin.Tool, HasTool: in.Origin.Tool != "",
		Upstream: in.Origin.Upstream, URI: in.Origin.URI, Labels: in.Labels, Claims: in.Caller.Claims,
	}
	rule := in.Snapshot.Rules.DecideFlow(&q)
	if rule == nil {
		return
	}
	r.Rule, r.Decision = rule.ID, policy.Decision{Action: policy.Deny, RuleID: rule.ID, Rule: rule}
	if rule.Action == policy.RateLimit {
		r.Decision.Action = policy.RateLimit
	}
	in.perform(nil, r)
}
