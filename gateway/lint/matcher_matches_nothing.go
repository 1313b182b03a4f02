package lint

import "svc/gateway/diag"

// matcherMatchesNothing warns of tool matchers that match no valid tool name.
func matcherMatchesNothing(p *pass) {
	tell := func(at diag.At, what string) {
		p.warn(at, "a tool name has at least one character and no control characters", "no tool name can match this, so the %s applies to nothing", what)
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.tools != nil && p.budget.Empty(r.tools) {
			tell(p.ruleAt(r.index).Field("when").Field(r.matcher), "rule")
		}
	}
	for i := range p.routes {
		if r := &p.routes[i]; p.budget.Empty(r.tools) {
			tell(p.routeAt(r.index).Field("match").Field(r.matcher), "route")
		}
	}
}
