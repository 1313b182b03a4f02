package policy

import (
	"slices"

	"svc/gateway/mcp"
	"svc/gateway/policy/match"
)

// index finds the rules that may match messages of one direction without evaluating all
// of them. Each rule is in one list, chosen by its most selective condition: exact tool
// names, the literal prefix or suffix of its pattern, a claim, the method. The rule
// numbers of a list ascend, and a list ends at a rule that matches every message that is
// looked up in it. The first matching rule is the lowest number over all lists of a
// message, so the result is the same as that of evaluating the rules in order.
type index struct {
	any      []entry
	methods  map[string][]entry
	names    map[string][]entry
	prefixes affixes // tool_prefix, and patterns by their literal prefix
	suffixes affixes // patterns that start with a wildcard, by their literal suffix
	patterns []entry
	subjects map[string][]entry
	groups   map[string][]entry
	scopes   map[string][]entry
	claims   []entry // all rules of the three lists above, for callers whose claims cannot be read
}

// build adds the rules that may match in a direction.
func (x *index) build(rules []*Rule, d Direction) {
	*x = index{
		methods: map[string][]entry{}, names: map[string][]entry{},
		subjects: map[string][]entry{}, groups: map[string][]entry{}, scopes: map[string][]entry{},
		prefixes: affixes{rules: map[string][]entry{}},
		suffixes: affixes{rules: map[string][]entry{}, backwards: true},
	}
	for _, r := range rules {
		if r.direction != Any && r.direction != d {
			continue
		}
		if r.tool.Kind == match.Every {
			x.enterAny(r)
		} else if d == ClientToServer && (r.method == "" || r.method == mcp.MethodToolsCall) {
			x.enterTool(r)
		}
	}
}

// enterTool adds a rule with a tool matcher.
func (x *index) enterTool(r *Rule) {
	switch t := &r.tool; {
	case t.Kind == match.ByName:
		for _, name := range t.Names {
			x.names[name] = enter(x.names[name], r)
		}
	case t.Kind == match.ByPrefix || t.Prefix != "":
		x.prefixes.enter(t.Prefix, r)
	case t.Suffix != "":
		x.suffixes.enter(t.Suffix, r)
	default:
		x.patterns = enter(x.patterns, r)
	}
}

// enterAny adds a rule without a tool matcher.
func (x *index) enterAny(r *Rule) {
	byKey := func(m map[string][]entry, keys []string) {
		for _, k := range keys {
			m[k] = enter(m[k], r)
		}
	}
	if r.claims != nil {
		x.claims = enter(x.claims, r)
	}
	switch c := r.claims; {
	case c != nil && len(c.subjectIn.list) > 0:
		byKey(x.subjects, c.subjectIn.list)
	case c != nil && len(c.groupsIn.list) > 0:
		byKey(x.groups, c.groupsIn.list)
	case c != nil && len(c.groups) > 0:
		byKey(x.groups, c.groups[:1])
	case c != nil:
		byKey(x.scopes, c.scopesIn.list)
	case r.method != "":
		byKey(x.methods, []string{r.method})
	case r.Approval != nil:
		byKey(x.methods, approvable)
	case r.uri != nil:
		byKey(x.methods, mcp.URIMethods)
	default:
		x.any = enter(x.any, r)
	}
}

// entry is the number of a rule in a list. Its lowest bit is set when the rule matches
// every message that is looked up in the list, so that its conditions are not checked.
type entry uint32

func (e entry) rule() int32         { return int32(e >> 1) }
func (e entry) unconditional() bool { return e&1 != 0 }

// enter appends a rule to a list, unless an earlier rule of the list always matches.
func enter(list []entry, r *Rule) []entry {
	e := entry(r.Index) << 1
	if n := len(list); n > 0 && (list[n-1].unconditional() || list[n-1].rule() == int32(r.Index)) {
		return list
	}
	if r.claims == nil && r.arguments == nil && r.upstreams == nil && r.restores == nil && r.labels == nil && r.uri == nil && !r.inputRequired && !r.tool.IsPattern() {
		e |= 1
	}
	return append(list, e)
}

// find returns the first rule that matches, or nil.
func (s *Set) find(q *Request) *Rule {
	if int(q.Direction) >= len(s.index) {
		return nil
	}
	x := &s.index[q.Direction]
	best := int32(len(s.rules))
	best = s.first(x.any, q, best)
	if len(x.methods) > 0 {
		best = s.first(x.methods[q.Method], q, best)
	}
	if c := q.Claims; c != nil {
		best = s.findClaims(x, q, c, best)
	}
	if q.HasTool && q.Direction == ClientToServer && q.Method == mcp.MethodToolsCall {
		if len(x.names) > 0 {
			best = s.first(x.names[q.Tool], q, best)
		}
		best = s.findAffix(&x.prefixes, q, best)
		best = s.findAffix(&x.suffixes, q, best)
		best = s.first(x.patterns, q, best)
	}
	if int(best) == len(s.rules) {
		return nil
	}
	return s.rules[best]
}

// findClaims checks the rules that are indexed under a claim of the caller.
func (s *Set) findClaims(x *index, q *Request, c *Claims, best int32) int32 {
	if c.Unreadable != 0 {
		return s.first(x.claims, q, best)
	}
	if len(x.subjects) > 0 {
		best = s.first(x.subjects[c.Subject], q, best)
	}
	if len(x.groups) > 0 {
		for _, g := range c.Groups {
			best = s.first(x.groups[g], q, best)
		}
	}
	if len(x.scopes) > 0 {
		for _, scope := range c.Scopes {
			best = s.first(x.scopes[scope], q, best)
		}
	}
	return best
}

// first returns the first matching rule of a list if its number is lower than best, else
// best. The condition that the list is indexed by is not checked again.
func (s *Set) first(list []entry, q *Request, best int32) int32 {
	for _, e := range list {
		i := e.rule()
		if i >= best {
			break
		}
		if e.unconditional() || s.meets(s.rules[i], q) {
			return i
		}
	}
	return best
}

// meets checks the conditions that the list does not imply: those of [Rule.meets], and
// those on arguments.
func (s *Set) meets(r *Rule, q *Request) bool {
	return r.meets(q) && (r.arguments == nil || s.meetsArguments(r, q))
}

// meets checks the conditions that the list does not imply: the method of rules that are
// indexed by a claim, the result type, the upstream, restored values, labels, the URI, patterns and claims.
func (r *Rule) meets(q *Request) bool {
	return (r.method == "" || r.method == q.Method) && (r.Approval == nil || Approvable(q.Method)) &&
		(!r.inputRequired || q.ResultType == mcp.ResultInputRequired) &&
		(r.upstreams == nil || slices.Contains(r.upstreams, q.Upstream)) &&
		(r.restores == nil || r.restoresAny(q)) &&
		(r.labels == nil || r.labels.match(q.Labels)) &&
		(r.uri == nil || r.meetsURI(q)) &&
		r.tool.MatchPattern(q.Tool) &&
		(r.claims == nil || r.claims.match(q.Claims, r.permits()))
}

// restoresAny reports whether a value of one of the rule's entities was put back.
func (r *Rule) restoresAny(q *Request) bool {
	return slices.ContainsFunc(q.Restored, func(e string) bool { return slices.Contains(r.restores, e) })
}
