package lint

import (
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/nameset"
	"svc/gateway/policy"
	"svc/gateway/toolsearch"
)

// toolWithoutRoute warns of tool calls that rules allow and that have no route: they get 404
// no_route and never go to default_upstream. With federation every tool has an owner without a
// route.
func toolWithoutRoute(p *pass) {
	if p.file.Federation.Enabled {
		return
	}
	var sets []*nameset.Set
	for i := range p.routes {
		sets = append(sets, p.routes[i].tools)
	}
	if p.file.ToolSearch.Enabled && p.file.ToolSearch.Mode == config.ToolSearchSynthesize {
		sets = append(sets, nameset.Names(toolsearch.Name))
	}
	allowed := p.file.Policy.DefaultAction != nil && *p.file.Policy.DefaultAction == "allow"
	open := allowed
	for i := range p.rules {
		r := &p.rules[i]
		if !r.decides() || r.Action == policy.Deny.String() || r.takes(cell{way: up, tools: nameset.All()}) == nil {
			continue
		}
		open = true
		if r.tools == nil {
			allowed = true // like default_action: allow
			continue
		}
		if v, tool := p.budget.Covers(append(sets, p.denied(p.before(r))...), r.tools); v == nameset.NotCovered && len(p.routes) > 0 {
			p.warn(p.ruleAt(r.index).Field("when").Field(r.matcher), "add a route for it: tool calls never go to default_upstream",
				"rule %s allows tools that no route matches, such as %q: calls of them get 404 no_route", r.quoted(), tool)
		}
	}
	if !open {
		return
	}
	if len(p.file.Routes) == 0 {
		p.warn(p.root().Field("upstreams"), `add routes, as in routes: [{match: {tool_name: "*"}, upstream: NAME}]`,
			"there are no routes, so every tool call gets 404 no_route: default_upstream is for methods without a tool")
		return
	}
	if allowed {
		var all []*rule
		for i := range p.rules {
			if p.rules[i].decides() {
				all = append(all, &p.rules[i])
			}
		}
		if v, tool := p.budget.Covers(append(sets, p.denied(all)...), nameset.All()); v == nameset.NotCovered {
			p.info(p.root().Field("routes"), `add a last route with tool_name: "*" if they should reach an upstream`,
				"the rules allow tools that no route matches, such as %q: calls of them get 404 no_route", tool)
		}
	}
}

// denied returns the tools that rules deny to every caller.
func (p *pass) denied(rules []*rule) []*nameset.Set {
	var sets []*nameset.Set
	for _, r := range rules {
		if r.Action == policy.Deny.String() && r.claims == nil && r.When.Upstream == nil && r.ways[up] && r.tools != nil &&
			(r.When.Method == "" || r.When.Method == mcp.MethodToolsCall) {
			sets = append(sets, r.tools)
		}
	}
	return sets
}
