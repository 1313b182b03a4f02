package lint

import (
	"fmt"

	"svc/gateway/nameset"
)

// unreachableRoute warns of routes that no tool call reaches because routes above them match all
// their tools.
func unreachableRoute(p *pass) {
	var above []*nameset.Set
	for i := range p.routes {
		r := &p.routes[i]
		switch v, _ := p.budget.Covers(above, r.tools); {
		case v == nameset.Unknown:
			p.giveUp("routes[%d]", r.index)
		case v == nameset.Covered && !p.budget.Empty(r.tools):
			p.warn(p.routeAt(r.index).Field("match").Field(r.matcher), "move it above, or remove it",
				"no call reaches this route: %s", p.takers(r, above))
		}
		above = append(above, r.tools)
	}
}

// takers describes the routes above that match all tools of a route.
func (p *pass) takers(r *route, above []*nameset.Set) string {
	for i := range above {
		if v, _ := p.budget.Covers(above[i:i+1], r.tools); v == nameset.Covered {
			at := p.routeAt(p.routes[i].index)
			text := fmt.Sprintf("%s (line %d) matches all its tools", at.Path(), p.line(at))
			if p.routes[i].Upstream != r.Upstream {
				text += fmt.Sprintf(", to the upstream %q", p.routes[i].Upstream)
			}
			return text
		}
	}
	return "the routes above together match all its tools"
}
