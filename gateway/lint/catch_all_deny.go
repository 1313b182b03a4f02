package lint

import (
	"slices"

	"svc/gateway/nameset"
	"svc/gateway/policy"
)

// catchAllDeny warns of rules that deny every message below rules that let some pass: a client's
// answer to a server request has no method, so no rule above lets it pass. default_action never
// denies answers.
func catchAllDeny(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action != policy.Deny.String() || !r.decides() || !r.ways[up] || r.tools != nil || r.When.Arguments != nil || r.When.Upstream != nil || r.When.Method != "" || r.inputRequired {
			continue
		}
		before := p.before(r)
		passes := slices.ContainsFunc(before, func(a *rule) bool { return a.ways[up] && a.Action != policy.Deny.String() })
		if v, _ := p.covered(r, []cell{{way: up}}, before); !passes || v != nameset.NotCovered {
			continue // no call passes that could cause a server request, or answers are decided above
		}
		p.warn(p.ruleAt(r.index).Field("id"), "use default_action: deny instead, which lets answers pass",
			"rule %s also stops clients' answers to elicitation, sampling and roots requests of servers, which get an error in place of the answer", r.quoted())
	}
}
