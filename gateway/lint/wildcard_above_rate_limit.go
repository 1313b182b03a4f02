package lint

import "svc/gateway/policy"

// wildcardAboveRateLimit warns of a rule for everything above rate limits, which then never count
// (gateway specification, Matching rules).
func wildcardAboveRateLimit(p *pass) {
	for _, w := range p.wildcardsAboveLimits() {
		p.warn(p.ruleAt(w.rule.index).Field("id"), "move it below: the first rule that matches is the only one that acts",
			"rule %s matches every tool call, so %s below never %s", w.rule.quoted(), p.names(w.below), plural(len(w.below), "limits", "limit"))
	}
}

func (p *pass) wildcardsAboveLimits() []wildcard {
	return p.under(func(r *rule) bool { return r.Action != policy.Deny.String() }, policy.RateLimit)
}
