package lint

import (
	"slices"

	"svc/gateway/policy"
)

// redactRequestOnly warns of redactions that do not apply to answers (gateway specification,
// Action: redact).
func redactRequestOnly(p *pass) {
	for i := range p.rules {
		r := &p.rules[i]
		if r.Action != policy.Redact.String() || r.ways[down] || !r.decides() {
			continue
		}
		twin := slices.ContainsFunc(p.rules, func(a rule) bool {
			return a.Action == policy.Redact.String() && a.ways[down] && a.decides() && slices.ContainsFunc(a.Redact, func(s policy.Substitution) bool {
				return slices.ContainsFunc(r.Redact, func(o policy.Substitution) bool { return o.Regex == s.Regex })
			})
		})
		if !twin {
			p.warn(p.ruleAt(r.index).Field("id"), "add a rule with direction: server_to_client and the same redact",
				"rule %s rewrites only messages of clients: answers with the same text reach the client unchanged", r.quoted())
		}
	}
}
