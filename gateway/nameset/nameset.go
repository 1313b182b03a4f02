// Package nameset computes with sets of tool names as tool matchers define them: names,
// prefixes, patterns and expressions. It decides whether some sets together contain every
// name of another set, exactly, within a bound on the work.
//
// A tool name is a text of at least one character without control characters, as the
// gateway accepts it. The package is pure and independent of rules and routes.
package nameset

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"svc/gateway/glob"
	"svc/gateway/toolname"
)

// Set is a set of tool names. It is immutable and safe for concurrent use.
type Set struct {
	all   bool
	names map[string]bool // of a set that was given as a list
	list  []string
	re    *regexp.Regexp
	prog  *syntax.Prog
	start string // the literal prefix of every name of the set
}

// All returns the set of all names.
func All() *Set { return &Set{all: true, prog: mustProgram(`(?s:.*)`)} }

// Of returns the set of a matcher and its key, nil when there is none. The error is the
// error of an invalid pattern, or of several matchers.
func Of(w *toolname.Written) (s *Set, key string, err error) {
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
		s = All()
	case w.Name != nil:
		s = Names(*w.Name)
	case w.Prefix != nil:
		s = Prefix(*w.Prefix)
	case w.Glob != nil:
		s, err = Glob(*w.Glob)
	case w.Regex != nil:
		s, err = Regex(*w.Regex)
	default:
		s = Names(w.NameIn...)
	}
	return s, keys[0], err
}

// Names returns the set of the listed names.
func Names(list ...string) *Set {
	s := &Set{names: make(map[string]bool, len(list))}
	for _, n := range list {
		if n != "" && !s.names[n] {
			s.names[n] = true
			s.list = append(s.list, n)
		}
	}
	return s
}

// Prefix returns the set of the names with a prefix.
func Prefix(prefix string) *Set {
	s, err := compile(regexp.QuoteMeta(prefix) + `(?s:.*)`)
	if err != nil { // quoted text compiles, unless it is extremely long
		return Names()
	}
	return s
}

// Glob returns the set of the names that a pattern of package glob matches.
func Glob(pattern string) (*Set, error) {
	p, err := glob.Compile(pattern)
	if err != nil {
		return nil, err
	}
	if text, _, exact := p.Prefix(); exact {
		return Names(text), nil
	}
	return compile(p.Regex())
}

// Regex returns the set of the names that an RE2 expression matches as a whole.
func Regex(expr string) (*Set, error) { return compile(expr) }

// compile compiles an expression that must match a whole name.
func compile(expr string) (*Set, error) {
	prog, err := program(expr)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(`\A(?:` + expr + `)\z`)
	if err != nil {
		return nil, err
	}
	start, _ := re.LiteralPrefix()
	return &Set{re: re, prog: prog, start: start}, nil
}

// program compiles an expression to the instructions that coverSearch simulates.
func program(expr string) (*syntax.Prog, error) {
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
	prog, err := program(expr)
	if err != nil {
		panic(err) // unreachable: expr is a constant of this package
	}
	return prog
}

// Contains reports whether a name is in the set.
func (s *Set) Contains(name string) bool {
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

// Listed returns the names of a set that was given as a list; ok is false for any other
// set.
func (s *Set) Listed() (names []string, ok bool) { return s.list, s.names != nil }

// Verdict is the result of a query about sets.
type Verdict uint8

// The verdicts. Unknown means that the budget was used up first.
const (
	Unknown Verdict = iota
	Covered
	NotCovered
)

// Budget bounds the work of queries. Only one goroutine at a time uses it.
type Budget struct{ left int }

// NewBudget returns a budget in units. A unit is about one comparison of a character with
// a part of an expression.
func NewBudget(units int) *Budget { return &Budget{left: units} }

// question bounds the work of a single query, so that one expression cannot use up the
// whole budget.
const question = 2_000_000

// maxWritten is the number of bytes of listed names that are used when the target is not
// a list. Longer lists are left out: the result may then be NotCovered although they
// would cover the target.
const maxWritten = 4096

// Covers decides whether every name of target is in one of covers. For NotCovered, name
// is a shortest name that is in none.
func (b *Budget) Covers(covers []*Set, target *Set) (v Verdict, name string) {
	for _, c := range covers {
		if c.all || c == target {
			return Covered, ""
		}
	}
	if target.names != nil {
		return b.coversList(covers, target.list)
	}
	w := coverSearch{target: target.prog}
	var left []*Set // the lists that are considered
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
	units := min(b.left, question)
	w.left = units
	v, name = w.run()
	b.left -= units - max(w.left, 0)
	if v == NotCovered && slices.ContainsFunc(left, func(c *Set) bool { return c.Contains(name) }) {
		return Unknown, ""
	}
	return v, name
}

// mayMeet reports whether a name can start with both prefixes.
func mayMeet(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// coversList decides for a list of names.
func (b *Budget) coversList(covers []*Set, names []string) (Verdict, string) {
	for _, n := range names {
		hit := false
		for _, c := range covers {
			if b.left--; b.left < 0 {
				return Unknown, ""
			}
			if hit = c.Contains(n); hit {
				break
			}
		}
		if !hit {
			return NotCovered, n
		}
	}
	return Covered, ""
}

// Empty decides whether a set contains no name.
func (b *Budget) Empty(s *Set) bool {
	v, _ := b.Covers(nil, s)
	return v == Covered
}

// Full decides whether a set contains every name.
func (b *Budget) Full(s *Set) bool {
	v, _ := b.Covers([]*Set{s}, All())
	return v == Covered
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
	prog, err := program(strings.Join(quoted, "|"))
	if err != nil {
		return nil
	}
	return prog
}
