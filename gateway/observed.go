package gateway

import (
	"svc/gateway/audit"
	"svc/gateway/policy"
)

// observed tells what rules in mode observe would have done to a message, in
// their order, as the line has it. A rate limit takes its tokens, and is told when
// none was left; a guardrail is not asked: its text would leave the gateway.
func (ex *exchange) observed(list []audit.Observed, rules []*policy.Rule) []audit.Observed {
	for _, r := range rules {
		action := r.Action.String()
		if r.Action == policy.RateLimit {
			if ex.limit(r) == nil {
				continue
			}
			action = audit.ActionRateLimitBlocked
		}
		list = append(list, audit.Observed{RuleID: r.ID, Action: action})
	}
	return list
}
