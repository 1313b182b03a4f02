package lint

import "svc/gateway/nameset"

// shadowedRule warns of rules that never decide because rules above them match all their
// messages.
func shadowedRule(p *pass) {
	p.wildcards()
	for i := range p.rules {
		r := &p.rules[i]
		cells := r.cells()
		if len(cells) == 0 || p.told[r.index] || r.tools != nil && p.budget.Empty(r.tools) {
			continue // reported by another warning
		}
		v, by := p.covered(r, cells, p.before(r))
		switch {
		case v == nameset.Unknown:
			p.giveUp("rule %s", p.name(r))
		case v == nameset.NotCovered:
		case len(by) == 1 && by[0].Action == r.Action:
			p.warn(p.ruleAt(r.index).Field("id"), "remove it, or move it above",
				"rule %s never decides: %s above it matches all its messages, with the same action", r.quoted(), p.name(by[0]))
		default:
			p.warn(p.ruleAt(r.index).Field("id"), "move it above, or remove it",
				"rule %s never decides: %s above it %s all its messages", r.quoted(), p.names(by), plural(len(by), "matches", "match together"))
		}
	}
}
