package lint

import (
	"svc/gateway/mcp"
	"svc/gateway/nameset"
	"svc/gateway/policy"
)

// wildcard is a rule that matches every tool call, with the rules below that it prevents from
// deciding.
type wildcard struct {
	rule  *rule
	below []*rule
}

// takesEveryCall reports whether the rule matches every tool call of every caller.
func (p *pass) takesEveryCall(r *rule) bool {
	if !r.ways[up] || r.claims != nil || r.When.Arguments != nil || r.When.Upstream != nil || r.inputRequired || r.When.Method != "" && r.When.Method != mcp.MethodToolsCall {
		return false
	}
	return r.tools == nil || p.budget.Full(r.tools)
}

// under returns the wildcards among the rules with some action above rules with the action below,
// and records the rules that they cover completely.
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

// wildcards records the rules that the wildcard warnings report.
func (p *pass) wildcards() {
	p.redactsAboveDenies()
	p.wildcardsAboveLimits()
}
