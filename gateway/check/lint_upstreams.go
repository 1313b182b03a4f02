package check

import (
	"fmt"
	"net/url"
	"strings"

	"svc/gateway/base/diag"
	"svc/gateway/base/hostname"
	"svc/gateway/catalog/search"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/upstream"
)

// noDefaultUpstream warns of a gateway with which no client can start a session. With federation
// the gateway itself starts it.
func noDefaultUpstream(p *pass) {
	if p.file.DefaultUpstream != "" || len(p.file.Upstreams) == 0 || p.file.Federation.Enabled {
		return
	}
	hint := "set default_upstream to the name of one of the upstreams"
	if len(p.file.Upstreams) == 1 {
		hint = "add default_upstream: " + p.file.Upstreams[0].Name
	}
	p.warn(p.root().Field("upstreams"), hint, "without default_upstream methods that name no tool (initialize, tools/list, ping) answer 404 no_route")
}

// unusedUpstream warns of upstreams that no request reaches. With federation names lead to each
// of them.
func unusedUpstream(p *pass) {
	if p.file.Federation.Enabled {
		return
	}
	used := map[string]bool{p.file.DefaultUpstream: true}
	for i := range p.file.Routes {
		used[p.file.Routes[i].Upstream] = true
	}
	for i := range p.file.Upstreams {
		if name := p.file.Upstreams[i].Name; !used[name] {
			p.warn(p.root().Field("upstreams").Index(i).Field("name"), "add a route to it, or remove it", "no request reaches the upstream %q: no route names it, and it is not default_upstream", name)
		}
	}
}

// plainHTTPUpstream warns of tool calls and credentials that are sent over a network without TLS.
func plainHTTPUpstream(p *pass) {
	for i := range p.file.Upstreams {
		u := &p.file.Upstreams[i]
		if plainRemote(u.URL) {
			p.warn(p.root().Field("upstreams").Index(i).Field("url"), "use https, or keep the traffic on this machine",
				"calls to the upstream %q, and its credentials, are sent over the network without TLS", u.Name)
		}
	}
	for i, u := range p.file.ControlPlane.URL {
		if !plainRemote(u) {
			continue
		}
		p.warn(p.file.ControlPlane.URL.At(p.root().Field("control_plane").Field("url"), i), "use https, or keep the traffic on this machine",
			"traces, and the ingest key, are sent over the network without TLS")
	}
}

// plainRemote reports whether a URL is plain http to another machine.
func plainRemote(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "http" && u.Hostname() != "" && !hostname.IsLoopback(u.Hostname())
}

// authorizationServerOmitted suggests the issuer for logins: without it the upstream, which is not
// trusted with more than its own tokens, names the server at which the operator logs in.
func authorizationServerOmitted(p *pass) {
	for i := range p.file.Upstreams {
		u := &p.file.Upstreams[i]
		if u.Credentials == nil || u.Credentials.AuthorizationCode == nil || u.Credentials.AuthorizationCode.AuthorizationServer != "" {
			continue
		}
		p.info(p.root().Field("upstreams").Index(i).Field("credentials").Field("authorization_code"),
			"set authorization_server to the issuer that you expect; the next login prints it",
			"the upstream %q chooses the authorization server at which its operator logs in", u.Name)
	}
}

// idJAGAudience warns of ID tokens that are for another client than the one that exchanges them, which
// the identity provider must refuse.
func idJAGAudience(p *pass) {
	own := p.root().Field("auth").Field("oauth").Field("audience")
	for i := range p.file.Upstreams {
		u := &p.file.Upstreams[i]
		if u.Credentials == nil || u.Credentials.IDJAG == nil || u.Credentials.IDJAG.IDP.ClientID == p.file.Auth.OAuth.Audience {
			continue
		}
		at := p.root().Field("upstreams").Index(i).Field("credentials").Field("id_jag").Field("idp").Field("client_id")
		written := func(at diag.At) string { text, _ := p.doc.Written(at.Path()); return text }
		if strings.Contains(written(at)+written(own), "${") {
			continue // the variables may have other values at the gateway
		}
		p.warn(at, "set auth.oauth.audience to the client_id of idp: callers present the ID tokens that the identity provider issued for this client",
			"the gateway accepts tokens for %q, and the identity provider of the upstream %q exchanges only tokens for %q", upstream.Printable(p.file.Auth.OAuth.Audience, 200), u.Name, upstream.Printable(u.Credentials.IDJAG.IDP.ClientID, 200))
	}
}

// stdioSameUser warns of programs that run as the user of the gateway: then only Landlock, which
// not every system has, protects the gateway's files from them.
func stdioSameUser(p *pass) {
	for i := range p.file.Upstreams {
		if u := &p.file.Upstreams[i]; u.IsProcess() && u.User == "" {
			p.warn(p.root().Field("upstreams").Index(i).Field("command"), "set user to an account without files of its own, or make sure that the gateway's kernel has Landlock",
				"the program of the upstream %q runs as the user of the gateway: without Landlock it can read the gateway's configuration, keys and audit file", u.Name)
		}
	}
}

// userNamespaces warns of programs that can make user namespaces.
func userNamespaces(p *pass) {
	for i := range p.file.Upstreams {
		if u := &p.file.Upstreams[i]; u.IsProcess() && u.Sandbox.UserNamespaces {
			p.warn(p.root().Field("upstreams").Index(i).Field("sandbox").Field("user_namespaces"), "remove it unless the program starts a browser, and set user for the program",
				"the program of the upstream %q can make user namespaces, in which it has all capabilities: this opens parts of the kernel that are a common way out of an isolation", u.Name)
		}
	}
}

// toolWithoutRoute warns of tool calls that rules allow and that have no route: they get 404
// no_route and never go to default_upstream. With federation every tool has an owner without a
// route.
func toolWithoutRoute(p *pass) {
	if p.file.Federation.Enabled {
		return
	}
	var sets []*nameSet
	for i := range p.routes {
		sets = append(sets, p.routes[i].tools)
	}
	if p.file.ToolSearch.Enabled && p.file.ToolSearch.Mode == config.ToolSearchSynthesize {
		sets = append(sets, nameList(search.Name))
	}
	allowed := p.file.Policy.DefaultAction != nil && *p.file.Policy.DefaultAction == "allow"
	open := allowed
	for i := range p.rules {
		r := &p.rules[i]
		if !r.decides() || r.Action == policy.Deny.String() || r.takes(cell{way: up, tools: everyName()}) == nil {
			continue
		}
		open = true
		if r.tools == nil {
			allowed = true // like default_action: allow
			continue
		}
		if v, tool := p.budget.Covers(append(sets, p.denied(p.before(r))...), r.tools); v == coversNotAll && len(p.routes) > 0 {
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
		if v, tool := p.budget.Covers(append(sets, p.denied(all)...), everyName()); v == coversNotAll {
			p.info(p.root().Field("routes"), `add a last route with tool_name: "*" if they should reach an upstream`,
				"the rules allow tools that no route matches, such as %q: calls of them get 404 no_route", tool)
		}
	}
}

// denied returns the tools that rules deny to every caller.
func (p *pass) denied(rules []*rule) []*nameSet {
	var sets []*nameSet
	for _, r := range rules {
		if r.Action == policy.Deny.String() && r.claims == nil && r.When.Upstream == nil && r.When.Restores == nil && r.ways[up] && r.tools != nil &&
			(r.When.Method == "" || r.When.Method == mcp.MethodToolsCall) {
			sets = append(sets, r.tools)
		}
	}
	return sets
}

// unreachableRoute warns of routes that no tool call reaches because routes above them match all
// their tools.
func unreachableRoute(p *pass) {
	var above []*nameSet
	for i := range p.routes {
		r := &p.routes[i]
		switch v, _ := p.budget.Covers(above, r.tools); {
		case v == coversUnknown:
			p.giveUp("routes[%d]", r.index)
		case v == coversAll && !p.budget.Empty(r.tools):
			p.warn(p.routeAt(r.index).Field("match").Field(r.matcher), "move it above, or remove it",
				"no call reaches this route: %s", p.takers(r, above))
		}
		above = append(above, r.tools)
	}
}

// takers describes the routes above that match all tools of a route.
func (p *pass) takers(r *route, above []*nameSet) string {
	for i := range above {
		if v, _ := p.budget.Covers(above[i:i+1], r.tools); v == coversAll {
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
