package lint

import (
	"svc/gateway/mcp"
	"svc/gateway/nameset"
	"svc/gateway/policy"
)

// guarded are the methods that need a rule of their own under default deny (gateway
// specification, Default-deny discovery allowlist).
var guarded = [...]string{mcp.MethodListen, mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel}

// catchAllAllow warns of rules that let every message pass under default deny, and so allow
// methods that were not intended.
func catchAllAllow(p *pass) {
	if a := p.file.Policy.DefaultAction; a == nil || *a != "deny" {
		return
	}
	for i := range p.rules {
		r := &p.rules[i]
		if !r.decides() || r.Action == policy.Deny.String() || !r.ways[up] || r.tools != nil || r.When.Arguments != nil || r.When.Upstream != nil || r.When.Method != "" {
			continue
		}
		var opened []string
		for _, m := range guarded {
			if v, _ := p.covered(r, []cell{{way: up, method: m}}, p.before(r)); v == nameset.NotCovered {
				opened = append(opened, m)
			}
		}
		if len(opened) > 0 {
			p.warn(p.ruleAt(r.index).Field("id"), `for tools alone write tool_glob: "*", and give other methods rules of their own`,
				"rule %s lets every method pass although default_action is deny, including %s", r.quoted(), join(opened))
		}
	}
}

// before returns the rules above a rule that decide.
func (p *pass) before(r *rule) []*rule {
	var out []*rule
	for i := range p.rules {
		if a := &p.rules[i]; a.index < r.index && a.decides() {
			out = append(out, a)
		}
	}
	return out
}

// after returns the rules below a rule that decide.
func (p *pass) after(r *rule) []*rule {
	var out []*rule
	for i := range p.rules {
		if a := &p.rules[i]; a.index > r.index && a.decides() {
			out = append(out, a)
		}
	}
	return out
}

// decides reports whether the rule ends the evaluation when it matches.
func (r *rule) decides() bool { return r.Mode != "observe" }
