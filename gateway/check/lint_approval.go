package check

import (
	"slices"

	"svc/gateway/auth"
	"svc/gateway/base/diag"
	"svc/gateway/policy"
	"svc/store/api"
)

// firstApproval returns the first enforced rule with approval that fulfills a condition, and its
// position.
func (p *pass) firstApproval(where func(*rule) bool) (*rule, diag.At) {
	for i := range p.rules {
		if r := &p.rules[i]; r.Approval != nil && r.decides() && where(r) {
			return r, p.ruleAt(r.index).Field("approval")
		}
	}
	return nil, diag.At{}
}

// approvalByAddress warns of approval where callers are addresses: whoever comes from the address
// uses the grant.
func approvalByAddress(p *pass) {
	if p.file.Auth.Enabled {
		return
	}
	if r, at := p.firstApproval(func(*rule) bool { return true }); r != nil {
		p.warn(at, "enable auth ('svc keygen' makes keys)",
			"rule %s: authentication is off, so a call is approved for an address, and not_self does not know who the caller is", r.quoted())
	}
}

// approvalNoOwner warns of keys without a person that not_self could compare.
func approvalNoOwner(p *pass) {
	r, _ := p.firstApproval(func(r *rule) bool { return r.claims == nil && r.Approval.NotSelf != api.SelfAllowed })
	i := slices.IndexFunc(p.file.Auth.Keys, func(k auth.KeyConfig) bool { return k.Owner == "" })
	if r == nil || i < 0 || !p.file.Auth.Enabled {
		return
	}
	effect := "who uses it can approve calls of its own"
	if strict, _ := p.firstApproval(func(r *rule) bool { return r.claims == nil && r.Approval.NotSelf == api.SelfStrict }); strict != nil {
		r, effect = strict, "nobody can approve its calls with not_self: strict"
	}
	p.warn(p.root().Field("auth").Field("keys").Index(i).Field("id"), "set owner to the id or e-mail address of the person behind the key at the control plane",
		"the key %q has no owner, and rule %s needs approval: %s", p.file.Auth.Keys[i].ID, r.quoted(), effect)
}

// approvalNotShared warns of replicas whose session keys differ: a call has another digest at each.
func approvalNotShared(p *pass) {
	if !p.file.OwnSessionKeys() {
		return
	}
	if r, at := p.firstApproval(func(*rule) bool { return true }); r != nil {
		p.warn(at, "set sessions.key_file to a file that all replicas have, or silence this if there is only one gateway",
			"rule %s: replicas share rate_limit_store but not the session key, so each of them asks for approval of the same call", r.quoted())
	}
}

// approvalShadows warns of rules that do not act on calls for which a rule above asks: a granted call
// passes as by any allow rule. A deny for all that the rule matches is the usual rest of a list.
func approvalShadows(p *pass) {
	p.wildcards()
	for i := range p.rules {
		a := &p.rules[i]
		if a.Approval == nil || !a.decides() {
			continue
		}
		var hidden []*rule
		for _, b := range p.after(a) {
			denies := b.Action == policy.Deny.String()
			if b.Action == policy.Allow.String() || b.Action == policy.StripApp.String() || p.told[b.index] || !p.meet(a, b) {
				continue
			}
			if v, _ := p.covered(a, a.cells(), []*rule{b}); denies && v == coversAll {
				continue
			}
			v, _ := p.covered(b, b.cells(), []*rule{a})
			p.told[b.index] = v == coversAll
			hidden = append(hidden, b)
		}
		if len(hidden) > 0 {
			p.warn(p.ruleAt(a.index).Field("id"), "move a deny above it, and redact by a policy of the control plane: another rule above would decide without approval",
				"rule %s is an allow rule with approval: %s below %s not act on the calls that it matches", a.quoted(), p.names(hidden), plural(len(hidden), "does", "do"))
		}
	}
}

// meet reports whether a request can match two rules.
func (p *pass) meet(a, b *rule) bool {
	both := func(who *policy.Claims) bool { return a.meets(who) && b.meets(who) }
	some, _ := callers(a.claims)
	others, _ := callers(b.claims)
	if !slices.ContainsFunc(some, both) && !slices.ContainsFunc(others, both) {
		return false
	}
	for _, x := range a.cells() {
		for _, y := range b.cells() {
			switch {
			case x.way != y.way, x.upstream != y.upstream && x.upstream != "" && y.upstream != "":
			case x.tools != nil && y.tools != nil:
				if p.budget.Meet(x.tools, y.tools) {
					return true
				}
			case y.tools == nil && (y.method == "" || y.method == x.method):
				return true
			}
		}
	}
	return false
}
