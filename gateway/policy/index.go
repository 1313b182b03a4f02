package policy

import "svc/gateway/mcp"

// index finds the rules that may match messages of one direction without
// walking all of them. Each rule stands in one list, by the condition that
// narrows it most: exact tool names, the literal start or end of its pattern, a
// claim, the method. The numbers in a list ascend, and a list ends at a rule
// that matches whatever comes to it. The first rule that matches is the lowest
// over all lists that a message leads to, so the order of the rules decides as
// if they had been walked.
type index struct {
	any      []entry
	methods  map[string][]entry
	names    map[string][]entry
	prefixes affixes // tool_prefix, and patterns by what they start with
	suffixes affixes // patterns by what they end with, where they start with a wildcard
	patterns []entry
	subjects map[string][]entry
	groups   map[string][]entry
	scopes   map[string][]entry
}

// build enters the rules that may match in a direction.
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
		if r.tool.kind == toolAny {
			x.enterAny(r)
		} else if d == ClientToServer && (r.method == "" || r.method == mcp.MethodToolsCall) {
			x.enterTool(r)
		}
	}
}

// enterTool enters a rule with a tool matcher.
func (x *index) enterTool(r *Rule) {
	switch t := &r.tool; {
	case t.kind == toolNames:
		for _, name := range t.names {
			x.names[name] = enter(x.names[name], r)
		}
	case t.kind == toolPrefix || t.prefix != "":
		x.prefixes.enter(t.prefix, r)
	case t.suffix != "":
		x.suffixes.enter(t.suffix, r)
	default:
		x.patterns = enter(x.patterns, r)
	}
}

// enterAny enters a rule without a tool matcher.
func (x *index) enterAny(r *Rule) {
	byKey := func(m map[string][]entry, keys []string) {
		for _, k := range keys {
			m[k] = enter(m[k], r)
		}
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
		x.methods[r.method] = enter(x.methods[r.method], r)
	default:
		x.any = enter(x.any, r)
	}
}

// entry is the number of a rule in a list. Its lowest bit says that the rule
// matches whatever comes to the list, so that the rule itself is not looked at.
type entry uint32

func (e entry) rule() int32         { return int32(e >> 1) }
func (e entry) unconditional() bool { return e&1 != 0 }

// enter appends a rule to a list, unless a rule before it in the list matches
// everything that it could.
func enter(list []entry, r *Rule) []entry {
	e := entry(r.Index) << 1
	if n := len(list); n > 0 && (list[n-1].unconditional() || list[n-1].rule() == int32(r.Index)) {
		return list
	}
	if r.claims == nil && !r.inputRequired && r.tool.glob == nil && r.tool.regex == nil {
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

// findClaims looks through the rules that stand under a claim of the caller.
func (s *Set) findClaims(x *index, q *Request, c *Claims, best int32) int32 {
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

// first returns the first rule of a list that matches and comes before best,
// else best. What the list stands under is not checked again.
func (s *Set) first(list []entry, q *Request, best int32) int32 {
	for _, e := range list {
		i := e.rule()
		if i >= best {
			break
		}
		if e.unconditional() || s.rules[i].meets(q) {
			return i
		}
	}
	return best
}

// meets checks what a list does not: the method of rules that stand under a
// claim, the result type, patterns and claims.
func (r *Rule) meets(q *Request) bool {
	return (r.method == "" || r.method == q.Method) &&
		(!r.inputRequired || q.ResultType == mcp.ResultInputRequired) &&
		r.tool.matches(q.Tool) &&
		(r.claims == nil || r.claims.match(q.Claims))
}
