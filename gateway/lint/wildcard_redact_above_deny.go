package lint

import "svc/gateway/policy"

// wildcardRedactAboveDeny warns of a redact rule for everything above rules that would deny
// (gateway specification, Matching rules).
func wildcardRedactAboveDeny(p *pass) {
	for _, w := range p.redactsAboveDenies() {
		p.warn(p.ruleAt(w.rule.index).Field("id"), "move it below: the first rule that matches is the only one that acts",
			"rule %s redacts every tool call and lets it pass, so %s below never %s", w.rule.quoted(), p.names(w.below), plural(len(w.below), "denies", "deny"))
	}
}

func (p *pass) redactsAboveDenies() []wildcard {
	return p.under(func(r *rule) bool { return r.Action == policy.Redact.String() }, policy.Deny)
}
