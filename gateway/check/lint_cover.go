package check

import (
	"fmt"
	"slices"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/match"
)

// cell is a kind of message that a rule matches either completely or, for tool calls, by name:
// the messages that a rule matches are a few cells, for some callers.
type cell struct {
	way           int
	tools         *nameSet // tool calls by these names; otherwise nil
	method        string   // messages of a method; "" for any message that no other field restricts
	inputRequired bool     // answers that ask for input
	upstream      string   // to or from this upstream; empty for any
	labels        []string // of callers with these labels at least
	uri           string   // that ask for a URI below this one; empty for any
	unclear       bool     // and those whose URI has no single plain form
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
			out = append(out, cell{way: way, tools: everyName()}, cell{way: way, method: mcp.MethodPromptsGet})
		case r.Approval != nil && method == "":
			out = append(out, cell{way: way, tools: everyName()}, cell{way: way, method: mcp.MethodPromptsGet}, cell{way: way, method: mcp.MethodResourcesRead})
		case r.When.URIPrefix != nil && method == "":
			for _, m := range mcp.URIMethods {
				out = append(out, cell{way: way, method: m})
			}
		case method == mcp.MethodToolsCall && way == up:
			out = append(out, cell{way: way, tools: everyName()})
		default:
			out = append(out, cell{way: way, method: method})
		}
	}
	// A rule that decides for a caller with some labels decides for one with more.
	labels := [][]string{r.When.LabelsAll}
	if len(r.When.LabelsAny) > 0 {
		labels = nil
		for _, label := range r.When.LabelsAny {
			labels = append(labels, append(slices.Clone(r.When.LabelsAll), label))
		}
	}
	upstreams := r.When.Upstream
	if len(upstreams) == 0 {
		upstreams = []string{""}
	}
	var each []cell
	for _, c := range out {
		if r.When.URIPrefix != nil {
			c.uri, c.unclear = *r.When.URIPrefix, r.takesUnclear()
		}
		for _, c.upstream = range upstreams {
			for _, c.labels = range labels {
				each = append(each, c)
			}
		}
	}
	return each
}

// ofUpstream reports whether the rule matches messages of the upstream of a cell.
func (r *rule) ofUpstream(c cell) bool {
	return len(r.When.Upstream) == 0 || slices.Contains(r.When.Upstream, c.upstream)
}

// narrows reports whether the rule matches some of the messages alone that its method, direction and
// tool matcher select, whoever sends them.
func (r *rule) narrows() bool {
	w := r.When
	return w.Arguments != nil || w.Upstream != nil || w.Restores != nil || w.LabelsAll != nil || w.LabelsAny != nil || w.URIPrefix != nil
}

// takesUnclear reports whether the rule also matches a URI that has no single plain form.
func (r *rule) takesUnclear() bool { return r.Action == policy.Deny.String() || r.Approval != nil }

// ofFlow reports whether the rule matches all messages of a cell as far as labels and URIs go.
func (r *rule) ofFlow(c cell) bool {
	w := r.When
	has := func(label string) bool { return slices.Contains(c.labels, label) }
	if slices.ContainsFunc(w.LabelsAll, func(label string) bool { return !has(label) }) || w.LabelsAny != nil && !slices.ContainsFunc(w.LabelsAny, has) {
		return false
	}
	if w.URIPrefix == nil {
		return true
	}
	prefix, err := match.CompileURI(*w.URIPrefix)
	return err == nil && c.uri != "" && prefix.Match(c.uri) == match.Yes && (r.takesUnclear() || !c.unclear)
}

// takes returns the tools of a cell that the rule decides: everyName() for the whole of a cell that has
// no tools, nil for none.
func (r *rule) takes(c cell) *nameSet {
	method := r.When.Method
	switch {
	case !r.ways[c.way], !r.ofUpstream(c), !r.ofFlow(c):
	case r.When.Arguments != nil, r.When.Restores != nil:
		// It decides some of the calls that it matches, so it is never known to decide all.
	case c.tools != nil:
		if r.inputRequired || method != "" && method != mcp.MethodToolsCall {
			return nil
		}
		if r.tools == nil {
			return everyName()
		}
		return r.tools
	case r.tools != nil:
	case c.inputRequired:
		if method == "" {
			return everyName()
		}
	case r.Approval != nil && !policy.Approvable(c.method):
	case !r.inputRequired && (method == "" || method == c.method):
		// The method of the message is not known, so a rule with a method covers only cells of
		// that method.
		return everyName()
	}
	return nil
}

// maxCallers bounds the kinds of callers that are examined for one rule.
const maxCallers = 4096

// callers returns identities that represent all callers that meet conditions: each has the claims
// that the conditions require and no others. Conditions only require that claims are present, so
// a rule that decides for such a caller decides for every caller with more. Callers with claims
// that cannot be read are left out: a rule that only they reach is a mistake too. ok is false when
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
func (p *pass) covered(r *rule, cells []cell, rules []*rule) (v coverage, by []*rule) {
	who, ok := callers(r.claims)
	if !ok {
		return coversUnknown, nil
	}
	used := map[*rule]bool{}
	for _, c := range cells {
		for _, w := range who {
			var some []*rule
			for _, a := range rules {
				if a.meets(w) && a.takes(c) != nil {
					some = append(some, a)
				}
			}
			if v := p.coversCell(c, some); v != coversAll {
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
	return coversAll, by
}

// coversCell reports whether rules together decide a whole cell.
func (p *pass) coversCell(c cell, rules []*rule) coverage {
	if c.tools == nil {
		if len(rules) > 0 {
			return coversAll
		}
		return coversNotAll
	}
	v, _ := p.budget.Covers(taken(c, rules), c.tools)
	return v
}

func taken(c cell, rules []*rule) []*nameSet {
	sets := make([]*nameSet, len(rules))
	for i, a := range rules {
		sets[i] = a.takes(c)
	}
	return sets
}

// needed returns, of rules that together cover a cell, one that covers it alone, or else a few of
// which none can be omitted.
func (p *pass) needed(c cell, rules []*rule) []*rule {
	for _, a := range rules {
		if p.coversCell(c, []*rule{a}) == coversAll {
			return []*rule{a}
		}
	}
	const most = 24 // a longer search would cost too much
	left := slices.Clone(rules)
	for i := 0; i < len(left) && len(rules) <= most; {
		without := slices.Delete(slices.Clone(left), i, i+1)
		if p.coversCell(c, without) == coversAll {
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

// shadowedRule warns of rules that never decide because rules above them match all their
// messages.
func shadowedRule(p *pass) {
	p.wildcards()
	for i := range p.rules {
		r := &p.rules[i]
		cells := r.cells()
		if len(cells) == 0 || p.told[r.index] || r.tools != nil && p.budget.Empty(r.tools) {
			continue // reported by another warning
		}
		v, by := p.covered(r, cells, p.before(r))
		switch {
		case v == coversUnknown:
			p.giveUp("rule %s", p.name(r))
		case v == coversNotAll:
		case len(by) == 1 && by[0].Action == r.Action:
			p.warn(p.ruleAt(r.index).Field("id"), "remove it, or move it above",
				"rule %s never decides: %s above it matches all its messages, with the same action", r.quoted(), p.name(by[0]))
		default:
			p.warn(p.ruleAt(r.index).Field("id"), "move it above, or remove it",
				"rule %s never decides: %s above it %s all its messages", r.quoted(), p.names(by), plural(len(by), "matches", "match together"))
		}
	}
}

// wildcard is a rule that matches every tool call, with the rules below that it prevents from
// deciding.
type wildcard struct {
	rule  *rule
	below []*rule
}

// takesEveryCall reports whether the rule matches every tool call of every caller.
func (p *pass) takesEveryCall(r *rule) bool {
	if !r.ways[up] || r.claims != nil || r.narrows() || r.inputRequired || r.When.Method != "" && r.When.Method != mcp.MethodToolsCall {
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
				if v, _ := p.covered(b, []cell{c}, []*rule{a}); v == coversAll {
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

// wildcardAboveRateLimit warns of a rule for everything above rate limits, which then never count
// (gateway specification, Matching rules).
func wildcardAboveRateLimit(p *pass) {
	for _, w := range p.wildcardsAboveLimits() {
		p.warn(p.ruleAt(w.rule.index).Field("id"), "move it below: the first rule that matches is the only one that acts",
			"rule %s matches every tool call, so %s below never %s", w.rule.quoted(), p.names(w.below), plural(len(w.below), "limits", "limit"))
	}
}

func (p *pass) wildcardsAboveLimits() []wildcard {
	return p.under(func(r *rule) bool { return r.Action != policy.Deny.String() }, policy.RateLimit)
}

// wildcardRedactAboveDeny warns of a redact rule for everything above rules that would deny
// (gateway specification, Matching rules).
func wildcardRedactAboveDeny(p *pass) {
	for _, w := range p.redactsAboveDenies() {
		p.warn(p.ruleAt(w.rule.index).Field("id"), "move it below: the first rule that matches is the only one that acts",
			"rule %s redacts every tool call and lets it pass, so %s below never %s", w.rule.quoted(), p.names(w.below), plural(len(w.below), "denies", "deny"))
	}
}

func (p *pass) redactsAboveDenies() []wildcard {
	return p.under(func(r *rule) bool { return r.Action == policy.Redact.String() }, policy.Deny)
}
