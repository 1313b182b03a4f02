package policy

import (
	"strings"

	"svc/gateway/mcp"
)

// index finds the rules that may match messages of one direction without
// walking all of them. Each rule stands in one list, by the condition that
// narrows it most: exact tool names, the literal start or end of its pattern, a
// claim, the method. The numbers in a list ascend, and a list ends at a rule
// that matches whatever comes to it. The first rule that matches is the lowest
// over all lists that a message leads to, so the order of the rules decides as
// if they had been walked.
type index struct {
	any      []int32
	methods  map[string][]int32
	names    map[string][]int32
	prefixes *node // tool_prefix, and patterns by what they start with
	suffixes *node // patterns by what they end with, where they start with a wildcard
	patterns []int32
	subjects map[string][]int32
	groups   map[string][]int32
	scopes   map[string][]int32
}

// build enters the rules that may match in a direction.
func (x *index) build(rules []*Rule, d Direction) {
	*x = index{
		methods: map[string][]int32{}, names: map[string][]int32{},
		subjects: map[string][]int32{}, groups: map[string][]int32{}, scopes: map[string][]int32{},
		prefixes: &node{}, suffixes: &node{},
	}
	for _, r := range rules {
		if r.direction != Any && r.direction != d {
			continue
		}
		if r.tool.kind == toolAny {
			x.enterAny(rules, r)
		} else if d == ClientToServer && (r.method == "" || r.method == mcp.MethodToolsCall) {
			x.enterTool(rules, r)
		}
	}
}

// enterTool enters a rule with a tool matcher.
func (x *index) enterTool(rules []*Rule, r *Rule) {
	switch t := &r.tool; {
	case t.kind == toolNames:
		for _, name := range t.names {
			x.names[name] = enter(x.names[name], rules, r)
		}
	case t.kind == toolPrefix || t.prefix != "":
		n := x.prefixes.at(t.prefix, false)
		n.rules = enter(n.rules, rules, r)
	case t.suffix != "":
		n := x.suffixes.at(t.suffix, true)
		n.rules = enter(n.rules, rules, r)
	default:
		x.patterns = enter(x.patterns, rules, r)
	}
}

// enterAny enters a rule without a tool matcher.
func (x *index) enterAny(rules []*Rule, r *Rule) {
	byKey := func(m map[string][]int32, keys []string) {
		for _, k := range keys {
			m[k] = enter(m[k], rules, r)
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
		x.methods[r.method] = enter(x.methods[r.method], rules, r)
	default:
		x.any = enter(x.any, rules, r)
	}
}

// enter appends a rule to a list, unless a rule before it in the list matches
// everything that it could.
func enter(list []int32, rules []*Rule, r *Rule) []int32 {
	if n := len(list); n > 0 {
		last := rules[list[n-1]]
		if last == r {
			return list
		}
		if last.claims == nil && !last.inputRequired && last.tool.glob == nil && last.tool.regex == nil &&
			(last.method == "" || last.tool.kind != toolAny || last.method == r.method) {
			return list
		}
	}
	return append(list, int32(r.Index))
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
		best = s.findPrefix(x.prefixes, q, best)
		best = s.findSuffix(x.suffixes, q, best)
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
func (s *Set) first(list []int32, q *Request, best int32) int32 {
	for _, i := range list {
		if i >= best {
			break
		}
		r := s.rules[i]
		if (r.method == "" || r.method == q.Method) &&
			(!r.inputRequired || q.ResultType == mcp.ResultInputRequired) &&
			r.tool.matches(q.Tool) &&
			(r.claims == nil || r.claims.match(q.Claims)) {
			return i
		}
	}
	return best
}

// node is a node of a radix tree over the starts, or the ends, of names.
type node struct {
	label string // what leads here from the parent
	heads string // the byte by which each child is chosen
	kids  []*node
	rules []int32
}

// at returns the node of a key, which it makes when there is none. Backwards,
// labels are read from their end.
func (n *node) at(key string, backwards bool) *node {
	for key != "" {
		i := strings.IndexByte(n.heads, head(key, backwards))
		if i < 0 {
			kid := &node{label: key}
			n.heads += string([]byte{head(key, backwards)})
			n.kids = append(n.kids, kid)
			return kid
		}
		kid := n.kids[i]
		common := shared(kid.label, key, backwards)
		if common < len(kid.label) {
			upper, lower := cut(kid.label, common, backwards)
			mid := &node{label: upper, heads: string([]byte{head(lower, backwards)}), kids: []*node{kid}}
			kid.label = lower
			n.kids[i], kid = mid, mid
		}
		_, key = cut(key, common, backwards)
		n = kid
	}
	return n
}

// head returns the byte of a key that is read first.
func head(key string, backwards bool) byte {
	if backwards {
		return key[len(key)-1]
	}
	return key[0]
}

// shared returns how many bytes two keys have in common, from where they are
// read.
func shared(a, b string, backwards bool) int {
	n := 0
	for n < len(a) && n < len(b) {
		if backwards && a[len(a)-1-n] != b[len(b)-1-n] || !backwards && a[n] != b[n] {
			break
		}
		n++
	}
	return n
}

// cut parts a key after the n bytes that are read first.
func cut(key string, n int, backwards bool) (read, rest string) {
	if backwards {
		return key[len(key)-n:], key[:len(key)-n]
	}
	return key[:n], key[n:]
}

// findPrefix looks through the rules under all starts of the tool's name.
func (s *Set) findPrefix(n *node, q *Request, best int32) int32 {
	for rest := q.Tool; ; {
		best = s.first(n.rules, q, best)
		if rest == "" {
			return best
		}
		i := strings.IndexByte(n.heads, rest[0])
		if i < 0 {
			return best
		}
		n = n.kids[i]
		if !strings.HasPrefix(rest, n.label) {
			return best
		}
		rest = rest[len(n.label):]
	}
}

// findSuffix looks through the rules under all ends of the tool's name.
func (s *Set) findSuffix(n *node, q *Request, best int32) int32 {
	for rest := q.Tool; ; {
		best = s.first(n.rules, q, best)
		if rest == "" {
			return best
		}
		i := strings.IndexByte(n.heads, rest[len(rest)-1])
		if i < 0 {
			return best
		}
		n = n.kids[i]
		if !strings.HasSuffix(rest, n.label) {
			return best
		}
		rest = rest[:len(rest)-len(n.label)]
	}
}
