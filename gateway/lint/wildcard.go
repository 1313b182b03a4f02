package lint

import (
	"svc/gateway/mcp"
	"svc/gateway/nameset"
	"svc/gateway/policy"
)

// wildcard is a rule that takes every tool call, and rules below that it keeps
// from deciding.
type wildcard struct {
	rule  *rule
	below []*rule
}

// takesEveryCall reports whether the rule takes every tool call of every caller.
func (p *pass) takesEveryCall(r *rule) bool {
	if !r.ways[up] || r.claims != nil || r.When.Arguments != nil || r.When.Upstream != nil || r.inputRequired || r.When.Method != "" && r.When.Method != mcp.MethodToolsCall {
		return false
	}
	return r.tools == nil || p.budget.Full(r.tools)
}

// under returns the wildcards among rules of some action that stand above rules
// of the action below, and notes which of those they take whole.
func (p *pass) under(above func(*rule) bool, below policy.Action) []wildcard {
	var out []wildcard
	taken := map[int]bool{}
	for i := range p.rules {
		a := &p.rules[i]
		if !above(a) || !a.decides() || !p.takesEveryCall(a) {
			continue
		}
		w := wildcard{rule: a}
		for _, b := range p.after(a) {
			if b.Action != below.String() || taken[b.index] {
				continue
			}
			hits, cells := 0, b.cells()
			for _, c := range cells {
				if v, _ := p.covered(b, []cell{c}, []*rule{a}); v == nameset.Covered {
					hits++
				}
			}
			if hits > 0 {
				w.below = append(w.below, b)
				taken[b.index] = true
				p.told[b.index] = p.told[b.index] || hits == len(cells)
			}
		}
		if len(w.below) > 0 {
			out = append(out, w)
		}
	}
	return out
}

// wildcards notes the rules that the wildcard warnings tell about.
func (p *pass) wildcards() {
	p.redactsAboveDenies()
	p.wildcardsAboveLimits()
}
