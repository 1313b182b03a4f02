package lint

import "svc/gateway/mcp"

// directionMismatch warns of rules with a method that is never sent in the direction of the rule.
func directionMismatch(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		by := up
		switch mcp.MethodOf(r.When.Method).Sender {
		case mcp.Either:
			continue
		case mcp.Server:
			by = down
		}
		if r.ways[by] {
			continue
		}
		at := p.ruleAt(r.index).Field("when").Field("method")
		if by == down {
			p.warn(at, "add direction: server_to_client", "rule %s matches nothing: servers send %s, and a rule without a direction applies to messages of clients", r.quoted(), r.When.Method)
		} else {
			p.warn(at, "remove the direction", "rule %s matches nothing: clients send %s, servers do not", r.quoted(), r.When.Method)
		}
	}
}
