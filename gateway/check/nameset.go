package check

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"svc/gateway/mcp/match"
)

// nameSet is a set of tool names. It is immutable and safe for concurrent use.
type nameSet struct {
	all   bool
	names map[string]bool // of a set that was given as a list
	list  []string
	re    *regexp.Regexp
	prog  *syntax.Prog
	start string // the literal prefix of every name of the set
}

// everyName returns the set of all names.
func everyName() *nameSet { return &nameSet{all: true, prog: mustProgram(`(?s:.*)`)} }

// namesOf returns the set of a matcher and its key, nil when there is none. The error is the
// error of an invalid pattern, or of several matchers.
func namesOf(w *match.Written) (s *nameSet, key string, err error) {
	keys := w.Keys()
	switch len(keys) {
	case 0:
		return nil, "", nil
	case 1:
	default:
		return nil, keys[0], fmt.Errorf("%d tool matchers", len(keys))
	}
	switch {
	case w.IsAny():
		s = everyName()
	case w.Name != nil:
		s = nameList(*w.Name)
	case w.Prefix != nil:
		s = namesWithPrefix(*w.Prefix)
	case w.Glob != nil:
		s, err = namesOfGlob(*w.Glob)
	case w.Regex != nil:
		s, err = namesOfRegex(*w.Regex)
	default:
		s = nameList(w.NameIn...)
	}
	return s, keys[0], err
}

// nameList returns the set of the listed names.
func nameList(list ...string) *nameSet {
	s := &nameSet{names: make(map[string]bool, len(list))}
	for _, n := range list {
		if n != "" && !s.names[n] {
			s.names[n] = true
			s.list = append(s.list, n)
		}
	}
	return s
}

// namesWithPrefix returns the set of the names with a prefix.
func namesWithPrefix(prefix string) *nameSet {
	s, err := compile(regexp.QuoteMeta(prefix) + `(?s:.*)`)
	if err != nil { // quoted text compiles, unless it is extremely long
		return nameList()
	}
	return s
}

// namesOfGlob returns the set of the names that a pattern of package match matches.
func namesOfGlob(pattern string) (*nameSet, error) {
	p, err := match.CompileGlob(pattern)
	if err != nil {
		return nil, err
	}
	if text, _, exact := p.Prefix(); exact {
		return nameList(text), nil
	}
	return compile(p.Regex())
}

// namesOfRegex returns the set of the names that an RE2 expression matches as a whole.
func namesOfRegex(expr string) (*nameSet, error) { return compile(expr) }

// compile compiles an expression that must match a whole name.
func compile(expr string) (*nameSet, error) {
	prog, err := automaton(expr)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(`\A(?:` + expr + `)\z`)
	if err != nil {
		return nil, err
	}
	start, _ := re.LiteralPrefix()
	return &nameSet{re: re, prog: prog, start: start}, nil
}

// automaton compiles an expression to the instructions that coverSearch simulates.
func automaton(expr string) (*syntax.Prog, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, fmt.Errorf("compile %q: %w", expr, err)
	}
	return prog, nil
}

func mustProgram(expr string) *syntax.Prog {
	prog, err := automaton(expr)
	if err != nil {
		panic(err) // unreachable: expr is a constant of this package
	}
	return prog
}

// Contains reports whether a name is in the set.
func (s *nameSet) Contains(name string) bool {
	switch {
	case name == "":
		return false
	case s.all:
		return true
	case s.re != nil:
		return s.re.MatchString(name)
	}
	return s.names[name]
}

// coverage is the result of a query about sets.
type coverage uint8

// The verdicts. coversUnknown means that the budget was used up first.
const (
	coversUnknown coverage = iota
	coversAll
	coversNotAll
)

// workBound bounds the work of queries. Only one goroutine at a time uses it.
type workBound struct{ left int }

// newWorkBound returns a budget in units. A unit is about one comparison of a character with
// a part of an expression.
func newWorkBound(units int) *workBound { return &workBound{left: units} }

// setQuestion bounds the work of a single query, so that one expression cannot use up the
// whole budget.
const setQuestion = 2_000_000

// maxWritten is the number of bytes of listed names that are used when the target is not
// a list. Longer lists are left out: the result may then be coversNotAll although they
// would cover the target.
const maxWritten = 4096

// Covers decides whether every name of target is in one of covers. For coversNotAll, name
// is a shortest name that is in none.
func (b *workBound) Covers(covers []*nameSet, target *nameSet) (v coverage, name string) {
	for _, c := range covers {
		if c.all || c == target {
			return coversAll, ""
		}
	}
	if target.names != nil {
		return b.coversList(covers, target.list)
	}
	w := coverSearch{target: target.prog}
	var left []*nameSet // the lists that are considered
	for _, c := range covers {
		if c.names == nil {
			if b.left--; mayMeet(c.start, target.start) {
				w.covers = append(w.covers, c.prog)
			}
		} else if prog := listProgram(c.list); prog != nil {
			w.covers = append(w.covers, prog)
		} else {
			left = append(left, c)
		}
	}
	units := min(b.left, setQuestion)
	w.left = units
	v, name = w.run()
	b.left -= units - max(w.left, 0)
	if v == coversNotAll && slices.ContainsFunc(left, func(c *nameSet) bool { return c.Contains(name) }) {
		return coversUnknown, ""
	}
	return v, name
}

// Meet decides whether two sets have a name in common; false if that is too much work.
func (b *workBound) Meet(s, t *nameSet) bool {
	if s.names == nil && t.names != nil {
		s, t = t, s
	}
	if b.left -= len(s.list); s.names != nil && b.left > 0 {
		return slices.ContainsFunc(s.list, t.Contains)
	}
	w := coverSearch{target: s.prog, covers: []*syntax.Prog{t.prog}, meets: true, left: min(b.left, setQuestion)}
	units := w.left
	v, _ := w.run()
	b.left -= units - max(w.left, 0)
	return v == coversNotAll
}

// mayMeet reports whether a name can start with both prefixes.
func mayMeet(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// coversList decides for a list of names.
func (b *workBound) coversList(covers []*nameSet, names []string) (coverage, string) {
	for _, n := range names {
		hit := false
		for _, c := range covers {
			if b.left--; b.left < 0 {
				return coversUnknown, ""
			}
			if hit = c.Contains(n); hit {
				break
			}
		}
		if !hit {
			return coversNotAll, n
		}
	}
	return coversAll, ""
}

// Empty decides whether a set contains no name.
func (b *workBound) Empty(s *nameSet) bool {
	v, _ := b.Covers(nil, s)
	return v == coversAll
}

// Full decides whether a set contains every name.
func (b *workBound) Full(s *nameSet) bool {
	v, _ := b.Covers([]*nameSet{s}, everyName())
	return v == coversAll
}

// listProgram returns the program of a list of names, nil for a long list.
func listProgram(list []string) *syntax.Prog {
	size := 0
	quoted := make([]string, len(list))
	for i, n := range list {
		if size += len(n) + 1; size > maxWritten {
			return nil
		}
		quoted[i] = regexp.QuoteMeta(n)
	}
	prog, err := automaton(strings.Join(quoted, "|"))
	if err != nil {
		return nil
	}
	return prog
}
