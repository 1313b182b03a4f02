package lint

import (
	"fmt"
	"slices"

	"svc/gateway/mcp"
	"svc/gateway/nameset"
	"svc/gateway/policy"
)

// cell is a kind of message that a rule matches either completely or, for tool calls, by name:
// the messages that a rule matches are a few cells, for some callers.
type cell struct {
	way           int
	tools         *nameset.Set // tool calls by these names; otherwise nil
	method        string       // messages of a method; "" for any message that no other field restricts
	inputRequired bool         // answers that ask for input
	upstream      string       // to or from this upstream; empty for any
}

// cells returns the messages that a rule matches; none when its conditions exclude each other.
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

// takes returns the tools of a cell that the rule decides: All for the whole of a cell that has
// no tools, nil for none.
func (r *rule) takes(c cell) *nameset.Set {
	method := r.When.Method
	switch {
	case !r.ways[c.way], !r.ofUpstream(c):
	case r.When.Arguments != nil:
		// It decides some of the calls that it matches, so it is never known to decide all.
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
		// The method of the message is not known, so a rule with a method covers only cells of
		// that method.
		return nameset.All()
	}
	return nil
}

// maxCallers bounds the kinds of callers that are examined for one rule.
const maxCallers = 4096

// callers returns identities that represent all callers that meet conditions: each has the claims
// that the conditions require and no others. Conditions only require that claims are present, so
// a rule that decides for such a caller decides for every caller with more. ok is false when
// there are too many.
func callers(c *policy.ClaimsConfig) (list []*policy.Claims, ok bool) {
	if c == nil {
		return []*policy.Claims{nil}, true
	}
	// A subject that is in no list, for conditions that require none.
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

// covered reports whether rules together decide every message of some cells of r, and returns the
// rules that are needed for it.
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

// coversCell reports whether rules together decide a whole cell.
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

// needed returns, of rules that together cover a cell, one that covers it alone, or else a few of
// which none can be omitted.
func (p *pass) needed(c cell, rules []*rule) []*rule {
	for _, a := range rules {
		if p.coversCell(c, []*rule{a}) == nameset.Covered {
			return []*rule{a}
		}
	}
	const most = 24 // a longer search would cost too much
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

// giveUp records a rule or route that could not be analyzed completely.
func (p *pass) giveUp(format string, args ...any) {
	p.open = append(p.open, fmt.Sprintf(format, args...))
}

// undecided reports what could not be analyzed, in one finding.
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
