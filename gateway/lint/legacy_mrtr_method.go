package lint

import (
	"slices"

	"svc/gateway/mcp"
)

// legacyMRTRMethod warns of rules on server requests of the legacy dialect without a rule on the
// input_required results that replace them in the 2026-07-28 dialect (gateway specification,
// Server-to-client frames).
func legacyMRTRMethod(p *pass) {
	if allowed := p.file.AllowedProtocolVersions; len(allowed) > 0 && !slices.Contains(allowed, "2026-07-28") {
		return
	}
	asks := cell{way: down, inputRequired: true}
	for i := range p.rules {
		if r := &p.rules[i]; r.decides() && r.takes(asks) != nil {
			return
		}
	}
	for i := range p.rules {
		r := &p.rules[i]
		switch r.When.Method {
		case mcp.MethodElicit, mcp.MethodSample, mcp.MethodRootsList:
			if r.ways[down] {
				p.warn(p.ruleAt(r.index).Field("when").Field("method"), "add a rule with direction: server_to_client and result_type: input_required, and keep both",
					"rule %s is for the legacy dialect only: under 2026-07-28 servers send results of type input_required instead", r.quoted())
			}
		}
	}
}
