package lint

import (
	"svc/gateway/nameset"
	"svc/gateway/policy"
)

// claimsAllowWithoutDefaultDeny warns of rules that allow some callers what all others may do as
// well: claims restrict only if a later rule or the default denies (gateway specification,
// when.claims).
func claimsAllowWithoutDefaultDeny(p *pass) {
	action := p.file.Policy.DefaultAction
	if action != nil && *action == "deny" {
		return
	}
	for i := range p.rules {
		r := &p.rules[i]
		if r.claims == nil || !r.decides() || r.Action != policy.Allow.String() || !r.ways[up] {
			continue
		}
		var cells []cell
		for _, c := range r.cells() {
			// Without default_action, tool calls are denied.
			if c.way == up && (action != nil || c.tools == nil) {
				cells = append(cells, c)
			}
		}
		if len(cells) == 0 {
			continue
		}
		everyone := *r
		everyone.claims = nil
		var denies []*rule
		for _, a := range p.after(r) {
			if a.Action == policy.Deny.String() {
				denies = append(denies, a)
			}
		}
		if v, _ := p.covered(&everyone, cells, denies); v == nameset.NotCovered {
			p.warn(p.ruleAt(r.index).Field("when").Field("claims"), "set default_action: deny, or deny the same below without claims",
				"rule %s allows some callers what all others may do as well: a caller without the claims passes by the default", r.quoted())
		}
	}
}
