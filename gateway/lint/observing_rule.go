package lint

// observingRule warns of rules in mode observe, which look like protection.
func observingRule(p *pass) {
	for i := range p.rules {
		if r := &p.rules[i]; !r.decides() {
			p.warn(p.ruleAt(r.index).Field("mode"), "remove mode: observe when the audit lines show what you want",
				"rule %s is not enforced: the rules below decide about what it matches", r.quoted())
		}
	}
}
