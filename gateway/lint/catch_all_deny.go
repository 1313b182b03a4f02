package lint

import (
	"slices"

	"svc/gateway/nameset"
	"svc/gateway/policy"
)

// catchAllDeny warns of rules that deny every message below rules that let some
// pass: an answer of a client to a server's request carries no method, so nothing
// above such a rule lets it through. default_action never denies answers.
func catchAllDeny(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action != policy.Deny.String() || !r.decides() || !r.ways[up] || r.tools != nil || r.When.Arguments != nil || r.When.Upstream != nil || r.When.Method != "" || r.inputRequired {
			continue
		}
		before := p.before(r)
		passes := slices.ContainsFunc(before, func(a *rule) bool { return a.ways[up] && a.Action != policy.Deny.String() })
		if v, _ := p.covered(r, []cell{{way: up}}, before); !passes || v != nameset.NotCovered {
			continue // nothing is called that could ask, or the answers are decided above
		}
		p.warn(p.ruleAt(r.index).Field("id"), "use default_action: deny in its place, which lets answers pass",
			"rule %s also stops clients' answers to elicitation, sampling and roots requests of servers, which get an error in place of the answer", r.quoted())
	}
}
