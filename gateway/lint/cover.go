package lint

import (
	"fmt"
	"slices"

	"svc/gateway/mcp"
	"svc/gateway/nameset"
	"svc/gateway/policy"
)

// cell is a kind of message that rules either take whole or, for tool calls, by
// name: what a rule matches is a few cells, for some callers.
type cell struct {
	way           int
	tools         *nameset.Set // tool calls by these names; else nil
	method        string       // messages of a method; "" for any message that no other field narrows
	inputRequired bool         // answers that ask for input
	upstream      string       // to or from this one; empty for any
}

// cells returns what a rule matches; none when its conditions exclude each
// other.
func (r *rule) cells() []cell {
	var out []cell
	method := r.When.Method
	for way := range r.ways {
		switch {
		case !r.ways[way]:
		case r.tools != nil:
			if way == up && (method == "" || method == mcp.MethodToolsCall) {
				out = append(out, cell{way: way, tools: r.tools})
			}
		case r.inputRequired:
			if way == down && method == "" {
				out = append(out, cell{way: way, inputRequired: true})
			}
		case r.When.Arguments != nil && method == "":
			out = append(out, cell{way: way, tools: nameset.All()}, cell{way: way, method: mcp.MethodPromptsGet})
		case method == mcp.MethodToolsCall && way == up:
			out = append(out, cell{way: way, tools: nameset.All()})
		default:
			out = append(out, cell{way: way, method: method})
		}
	}
	if len(r.When.Upstream) == 0 {
		return out
	}
	var each []cell
	for _, c := range out {
		for _, c.upstream = range r.When.Upstream {
			each = append(each, c)
		}
	}
	return each
}

// ofUpstream reports whether the rule matches messages of the upstream of a cell.
func (r *rule) ofUpstream(c cell) bool {
	return len(r.When.Upstream) == 0 || slices.Contains(r.When.Upstream, c.upstream)
}

// takes returns the tools of a cell that the rule takes, All for the whole of a
// cell that is not about tools, nil for nothing of it.
func (r *rule) takes(c cell) *nameset.Set {
	method := r.When.Method
	switch {
	case !r.ways[c.way], !r.ofUpstream(c):
	case r.When.Arguments != nil:
		// It takes some calls of what it matches, and is never known to take all.
	case c.tools != nil:
		if r.inputRequired || method != "" && method != mcp.MethodToolsCall {
			return nil
		}
		if r.tools == nil {
			return nameset.All()
		}
		return r.tools
	case r.tools != nil:
	case c.inputRequired:
		if method == "" {
			return nameset.All()
		}
	case !r.inputRequired && (method == "" || method == c.method):
		// A message of any method may be one that the rule does not name, so a
		// rule with a method takes cells of that method alone.
		return nameset.All()
	}
	return nil
}

// maxCallers bounds the kinds of callers that are looked at for one rule.
const maxCallers = 4096

// callers returns identities that stand for all that meet conditions: each has
// what the conditions ask for and nothing else. Claims only ever ask that
// something is there, so a rule that takes such a caller takes every caller with
// more. ok is false when there are too many.
func callers(c *policy.ClaimsConfig) (list []*policy.Claims, ok bool) {
	if c == nil {
		return []*policy.Claims{nil}, true
	}
	// A subject that no list holds, for conditions that ask for none.
	const nobody = "\x00"
	or := func(list []string, none string) []string {
		if len(list) == 0 {
			return []string{none}
		}
		return list
	}
	subjects, groups, scopes := or(c.SubjectIn, nobody), or(c.GroupsIn, ""), or(c.ScopesIn, "")
	if len(subjects)*len(groups)*len(scopes) > maxCallers {
		return nil, false
	}
	for _, s := range subjects {
		for _, g := range groups {
			for _, scope := range scopes {
				who := &policy.Claims{Subject: s, Groups: slices.Clone(c.Groups)}
				if len(c.GroupsIn) > 0 {
					who.Groups = append(who.Groups, g)
				}
				if len(c.ScopesIn) > 0 {
					who.Scopes = []string{scope}
				}
				list = append(list, who)
			}
		}
	}
	return list, true
}

// covered answers whether rules together take everything that r takes of some
// cells, and which of them it takes to do so.
func (p *pass) covered(r *rule, cells []cell, rules []*rule) (v nameset.Verdict, by []*rule) {
	who, ok := callers(r.claims)
	if !ok {
		return nameset.Unknown, nil
	}
	used := map[*rule]bool{}
	for _, c := range cells {
		for _, w := range who {
			var some []*rule
			for _, a := range rules {
				if holds(a.claims, w) && a.takes(c) != nil {
					some = append(some, a)
				}
			}
			if v := p.coversCell(c, some); v != nameset.Covered {
				return v, nil
			}
			for _, a := range p.needed(c, some) {
				used[a] = true
			}
		}
	}
	for _, a := range rules {
		if used[a] {
			by = append(by, a)
		}
	}
	return nameset.Covered, by
}

// coversCell answers whether rules together take a whole cell.
func (p *pass) coversCell(c cell, rules []*rule) nameset.Verdict {
	if c.tools == nil {
		if len(rules) > 0 {
			return nameset.Covered
		}
		return nameset.NotCovered
	}
	v, _ := p.budget.Covers(taken(c, rules), c.tools)
	return v
}

func taken(c cell, rules []*rule) []*nameset.Set {
	sets := make([]*nameset.Set, len(rules))
	for i, a := range rules {
		sets[i] = a.takes(c)
	}
	return sets
}

// needed returns, of rules that take a cell together, one that does so alone, or
// else a few that none can be left out of.
func (p *pass) needed(c cell, rules []*rule) []*rule {
	for _, a := range rules {
		if p.coversCell(c, []*rule{a}) == nameset.Covered {
			return []*rule{a}
		}
	}
	const most = 24 // beyond it the list is not worth the search
	left := slices.Clone(rules)
	for i := 0; i < len(left) && len(rules) <= most; {
		without := slices.Delete(slices.Clone(left), i, i+1)
		if p.coversCell(c, without) == nameset.Covered {
			left = without
		} else {
			i++
		}
	}
	return left
}

// giveUp notes what could not be worked out.
func (p *pass) giveUp(format string, args ...any) {
	p.open = append(p.open, fmt.Sprintf(format, args...))
}

// undecided reports what could not be worked out, in one finding.
func (p *pass) undecided() {
	if len(p.open) == 0 {
		return
	}
	p.code = "shadowed-rule"
	first := p.open
	if len(first) > 3 {
		first = append(slices.Clone(first[:3]), fmt.Sprintf("%d more", len(p.open)-3))
	}
	p.info(p.root().Field("policy"), "split patterns with many repetitions, or list names",
		"whether something above takes everything was too much to work out for %s", join(first))
}
