package lint

import (
	"svc/gateway/nameset"
	"svc/gateway/upstream"
)

// routeAcrossPrefix warns of routes that lead tools to an upstream that has none of their names:
// a route for names without its prefix, or with the prefix of another upstream. Routes take
// precedence over prefixes, so these calls get 404 no_route.
func routeAcrossPrefix(p *pass) {
	needless := ""
	if p.file.Federation.Enabled {
		needless = ", or remove the route: federation needs no routes"
	}
	for i := range p.routes {
		r := &p.routes[i]
		to := p.upstream(r.Upstream)
		if to == nil || p.budget.Empty(r.tools) {
			continue
		}
		at := p.routeAt(r.index).Field("match").Field(r.matcher)
		if to.Prefix != "" {
			v, tool := p.budget.Covers([]*nameset.Set{nameset.Prefix(to.Prefix)}, r.tools)
			switch v {
			case nameset.NotCovered:
				p.warn(at, "match names that begin with "+to.Prefix+needless,
					"this route leads tools such as %q to the upstream %q, whose names all begin with %q: these calls get 404 no_route", tool, to.Name, to.Prefix)
			case nameset.Unknown:
				p.giveUp("routes[%d]", r.index)
			}
			continue
		}
		for j := range p.file.Upstreams {
			other := &p.file.Upstreams[j]
			if other.Prefix == "" {
				continue
			}
			if v, _ := p.budget.Covers([]*nameset.Set{r.tools}, nameset.Prefix(other.Prefix)); v == nameset.Covered {
				p.warn(at, "match fewer names"+needless,
					"this route leads the tools that begin with %q, the prefix of the upstream %q, to the upstream %q: these calls get 404 no_route", other.Prefix, other.Name, to.Name)
				break
			}
		}
	}
}

// upstream returns the upstream with a name, nil when there is none.
func (p *pass) upstream(name string) *upstream.Config {
	for i := range p.file.Upstreams {
		if p.file.Upstreams[i].Name == name {
			return &p.file.Upstreams[i]
		}
	}
	return nil
}
