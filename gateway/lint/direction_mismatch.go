package lint

import "svc/gateway/mcp"

// directionMismatch warns of rules that wait for a method from the side that
// never sends it.
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
			p.warn(at, "add direction: server_to_client", "rule %s matches nothing: servers send %s, and without a direction a rule is about what clients send", r.quoted(), r.When.Method)
		} else {
			p.warn(at, "remove the direction", "rule %s matches nothing: clients send %s, servers do not", r.quoted(), r.When.Method)
		}
	}
}
