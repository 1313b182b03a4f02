package lint

import (
	"slices"

	"svc/gateway/mcp"
	"svc/gateway/policy"
)

// needlessDiscoveryRule warns of allow rules for methods that pass under default deny anyway,
// because removing such a rule would not deny them.
func needlessDiscoveryRule(p *pass) {
	if a := p.file.Policy.DefaultAction; a == nil || *a != "deny" {
		return
	}
	for i := range p.rules {
		r := &p.rules[i]
		m := r.When.Method
		if r.Action != policy.Allow.String() || !r.decides() || !mcp.Discovery(m) || !r.ways[up] || r.tools != nil {
			continue
		}
		stopped := slices.ContainsFunc(p.after(r), func(a *rule) bool {
			return a.Action != policy.Allow.String() && a.takesMethod(up, m)
		})
		if !stopped {
			p.warn(p.ruleAt(r.index).Field("when").Field("method"), "remove the rule; to close the method deny it",
				"rule %s changes nothing: %s passes under default_action: deny without a rule", r.quoted(), m)
		}
	}
}
