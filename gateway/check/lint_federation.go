package check

import (
	"strings"

	"svc/gateway/config"
	"svc/gateway/mcp/match"
	"svc/gateway/policy"
	"svc/gateway/upstream"
)

// noPrefix warns of several upstreams without a prefix: the first of them to list a name keeps
// it, and another one's tool of that name is omitted.
func noPrefix(p *pass) {
	if !p.file.Federation.Enabled || len(p.file.Upstreams) < 2 {
		return
	}
	for i := range p.file.Upstreams {
		if u := &p.file.Upstreams[i]; u.Prefix == "" {
			p.warn(p.root().Field("upstreams").Index(i).Field("name"), "give it a prefix, as in prefix: "+prefixOf(u.Name),
				"the tools and prompts of the upstream %q have no prefix: a name that another upstream without one has listed before is left out", u.Name)
		}
	}
}

// prefixOf derives a prefix from the name of an upstream.
func prefixOf(name string) string {
	const most = 31
	out := make([]byte, 0, len(name)+1)
	for i := range min(len(name), most) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			c = '_'
		}
		out = append(out, c)
	}
	return string(append(out, '_'))
}

// overlappingPrefix warns of a prefix that begins with the prefix of another upstream: tools of
// the other upstream whose names begin with the longer prefix are omitted.
func overlappingPrefix(p *pass) {
	for i := range p.file.Upstreams {
		for j := range p.file.Upstreams {
			long, short := &p.file.Upstreams[i], &p.file.Upstreams[j]
			if short.Prefix != "" && len(long.Prefix) > len(short.Prefix) && strings.HasPrefix(long.Prefix, short.Prefix) {
				p.warn(p.root().Field("upstreams").Index(i).Field("prefix"), "choose prefixes such that none begins with another",
					"%q begins with %q, the prefix of the upstream %q: a tool of that one whose own name begins with %q is left out",
					long.Prefix, short.Prefix, short.Name, strings.TrimPrefix(long.Prefix, short.Prefix))
			}
		}
	}
}

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
			v, tool := p.budget.Covers([]*nameSet{namesWithPrefix(to.Prefix)}, r.tools)
			switch v {
			case coversNotAll:
				p.warn(at, "match names that begin with "+to.Prefix+needless,
					"this route leads tools such as %q to the upstream %q, whose names all begin with %q: these calls get 404 no_route", tool, to.Name, to.Prefix)
			case coversUnknown:
				p.giveUp("routes[%d]", r.index)
			}
			continue
		}
		for j := range p.file.Upstreams {
			other := &p.file.Upstreams[j]
			if other.Prefix == "" {
				continue
			}
			if v, _ := p.budget.Covers([]*nameSet{r.tools}, namesWithPrefix(other.Prefix)); v == coversAll {
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

// viewPattern warns of patterns of views that no tool of the view can match, because of the
// prefixes of its upstreams.
func viewPattern(p *pass) {
	for i := range p.file.Views {
		v := &p.file.Views[i]
		for j, pattern := range v.Tools {
			g, err := match.CompileGlob(pattern)
			if err != nil || len(v.Upstreams) == 0 {
				continue
			}
			if !p.mayMatch(g, v.Upstreams) {
				p.warn(p.root().Field("views").Index(i).Field("tools").Index(j), "write the name that clients see, with its prefix, or add its upstream to the view",
					"%q matches no tool of the view %q: no name of its upstreams begins like this", pattern, v.Name)
			}
		}
	}
}

// mayMatch reports whether a name of one of the upstreams may match a pattern, judging by
// prefixes.
func (p *pass) mayMatch(g *match.Pattern, upstreams []string) bool {
	text, _, exact := g.Prefix()
	for _, name := range upstreams {
		u := p.upstream(name)
		switch {
		case u == nil:
			return true // reported by another check
		case !strings.HasPrefix(text, u.Prefix) && (exact || !strings.HasPrefix(u.Prefix, text)):
		case p.byPrefix(text, u):
			return true
		}
	}
	return false
}

// byPrefix reports whether names with a prefix can belong to an upstream: no longer prefix
// belongs to another one.
func (p *pass) byPrefix(text string, u *upstream.Config) bool {
	for i := range p.file.Upstreams {
		other := &p.file.Upstreams[i]
		if other != u && len(other.Prefix) > len(u.Prefix) && strings.HasPrefix(text, other.Prefix) {
			return false
		}
	}
	return true
}

// appOnlyHidden warns of rules that let clients read the pages of apps of an upstream that has no view of
// its own: elsewhere its tools for apps alone are neither listed nor called. Which servers have such tools
// is not in the file.
func appOnlyHidden(p *pass) {
	addresses := addressesOf(p.file)
	if addresses == nil {
		return
	}
	for i := range p.rules {
		r := &p.rules[i]
		if r.When.URIPrefix == nil || r.Action == policy.Deny.String() {
			continue
		}
		scheme, path, _ := strings.Cut(*r.When.URIPrefix, "://")
		segment, _, named := strings.Cut(path, "/")
		if !strings.EqualFold(scheme, "ui") || !named {
			continue
		}
		for j := range p.file.Upstreams {
			if name := p.file.Upstreams[j].Name; addresses.Segment(name) == segment && !hasOwnView(p.file, name) {
				p.warn(p.ruleAt(r.index).Field("when").Field("uri_prefix"), "add views: [{name: "+name+", upstreams: ["+name+"]}], and let hosts with apps use its URL",
					"rule %s lets clients read the pages of apps of the upstream %q, which has no view of its own: its tools that are for apps alone are neither listed nor called", r.quoted(), name)
			}
		}
	}
}

// filterLists suggests to hide tools that may not be called. A file that has the key has decided,
// and with federation lists are always filtered.
func filterLists(p *pass) {
	if p.file.FiltersLists() || p.doc.Given("policy.filter_lists") || !p.doc.Given("policy") {
		return
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.Action == policy.Deny.String() && r.decides() && r.ways[up] && r.tools != nil {
			p.info(p.root().Field("policy"), "write filter_lists: true to leave them out, or false to keep them",
				"tools/list still shows the tools that rules deny, such as those of %s", p.name(r))
			return
		}
	}
}

// toolSearchOff warns of a mode of tool search without enabled: true. enabled: false is a choice
// and no mistake.
func toolSearchOff(p *pass) {
	if p.file.ToolSearch.Mode == config.ToolSearchSynthesize && !p.file.ToolSearch.Enabled && !p.doc.Given("tool_search.enabled") {
		p.warn(p.root().Field("tool_search").Field("mode"), "add enabled: true, or enabled: false if that is meant",
			"mode %s has no effect: tool search is off without enabled: true", config.ToolSearchSynthesize)
	}
}
