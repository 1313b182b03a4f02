package match

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Any is the tool_name that matches every name.
const Any = "*"

// Written are the matchers as a configuration has them, nil where a key is absent.
type Written struct {
	Name, Prefix, Glob, Regex *string
	NameIn                    []string
}

// Keys returns the keys that are set.
func (w *Written) Keys() []string {
	var keys []string
	for _, m := range [...]struct {
		key   string
		given bool
	}{
		{"tool_name", w.Name != nil},
		{"tool_prefix", w.Prefix != nil},
		{"tool_glob", w.Glob != nil},
		{"tool_regex", w.Regex != nil},
		{"tool_name_in", w.NameIn != nil},
	} {
		if m.given {
			keys = append(keys, m.key)
		}
	}
	return keys
}

// IsAny reports whether the matcher is tool_name: "*".
func (w *Written) IsAny() bool { return w.Name != nil && *w.Name == Any }

// Text returns the key and the value as they are written, for explanations; the key is
// empty when there is no matcher.
func (w *Written) Text() (key, text string) {
	switch {
	case w.Name != nil:
		return "tool_name", strconv.Quote(*w.Name)
	case w.Prefix != nil:
		return "tool_prefix", strconv.Quote(*w.Prefix)
	case w.Glob != nil:
		return "tool_glob", strconv.Quote(*w.Glob)
	case w.Regex != nil:
		return "tool_regex", strconv.Quote(*w.Regex)
	case w.NameIn != nil:
		return "tool_name_in", Brief(w.NameIn)
	}
	return "", ""
}

// Brief formats a list, truncated after a few entries.
func Brief(list []string) string {
	const most = 8
	quoted := make([]string, 0, most+1)
	for i, s := range list {
		if i == most {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
		quoted = append(quoted, strconv.Quote(s))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Kind is the kind of a compiled matcher.
type Kind uint8

// The kinds of matchers.
const (
	Every    Kind = iota // no matcher, or tool_name: "*"
	ByName               // tool_name, tool_name_in, and globs that are equivalent to a name
	ByPrefix             // tool_prefix, and globs that are equivalent to a prefix
	ByGlob
	ByRegex
)

// Matcher is a compiled matcher. It is immutable and safe for concurrent use.
type Matcher struct {
	Kind   Kind
	Names  []string
	Prefix string // for patterns: the literal prefix of every match
	Suffix string // for globs: the literal suffix of every match

	glob  *Pattern
	regex *regexp.Regexp
}

// Compile compiles the one matcher that is written, or none.
func Compile(w *Written) (Matcher, error) {
	if keys := w.Keys(); len(keys) > 1 {
		return Matcher{}, fmt.Errorf("at most one tool matcher is allowed, found %s", strings.Join(keys, ", "))
	}
	var m Matcher
	switch {
	case w.IsAny():
	case w.Name != nil:
		m = Matcher{Kind: ByName, Names: []string{*w.Name}}
	case w.NameIn != nil:
		if len(w.NameIn) == 0 {
			return Matcher{}, errors.New("tool_name_in is empty")
		}
		m = Matcher{Kind: ByName, Names: slices.Clone(w.NameIn)}
	case w.Prefix != nil:
		m = Matcher{Kind: ByPrefix, Prefix: *w.Prefix}
	case w.Glob != nil:
		g, err := CompileGlob(*w.Glob)
		if err != nil {
			return Matcher{}, err
		}
		m = ofGlob(g)
	case w.Regex != nil:
		bare, whole, err := compileRegex(*w.Regex)
		if err != nil {
			return Matcher{}, err
		}
		m = Matcher{Kind: ByRegex, regex: whole}
		m.Prefix, _ = bare.LiteralPrefix()
	}
	if m.Kind == ByName && slices.Contains(m.Names, "") || w.Prefix != nil && *w.Prefix == "" {
		return Matcher{}, errors.New("a tool matcher is empty")
	}
	return m, nil
}

// ofGlob returns the simplest equivalent matcher of a glob.
func ofGlob(g *Pattern) Matcher {
	text, whole, exact := g.Prefix()
	switch {
	case exact:
		return Matcher{Kind: ByName, Names: []string{text}}
	case whole:
		return Matcher{Kind: ByPrefix, Prefix: text}
	}
	return Matcher{Kind: ByGlob, glob: g, Prefix: text, Suffix: g.Suffix()}
}

// compileRegex compiles an expression by itself, and so that it must match all of a
// name: a|b becomes ^(?:a|b)$.
func compileRegex(expr string) (bare, whole *regexp.Regexp, err error) {
	// First without the anchors: "a)(b" is not an expression, though "(?:a)(b)" is one.
	if bare, err = regexp.Compile(expr); err != nil {
		return nil, nil, err
	}
	whole, err = regexp.Compile(`^(?:` + expr + `)$`)
	return bare, whole, err
}

// CheckGlob returns what is wrong with a tool_glob.
func CheckGlob(pattern string) error {
	_, err := CompileGlob(pattern)
	return err
}

// CheckRegex returns what is wrong with a tool_regex.
func CheckRegex(expr string) error {
	_, _, err := compileRegex(expr)
	return err
}

// IsPattern reports whether Match has more to look at than names and a prefix.
func (m *Matcher) IsPattern() bool { return m.glob != nil || m.regex != nil }

// MatchPattern reports whether the pattern of the matcher, if it has one, matches a
// name that was found by its names or its prefix.
func (m *Matcher) MatchPattern(name string) bool {
	switch m.Kind {
	case ByGlob:
		return m.glob.Match(name)
	case ByRegex:
		return m.regex.MatchString(name)
	}
	return true
}

// Match reports whether the matcher matches a name.
func (m *Matcher) Match(name string) bool {
	switch m.Kind {
	case ByName:
		return slices.Contains(m.Names, name)
	case ByPrefix:
		return strings.HasPrefix(name, m.Prefix)
	}
	return m.MatchPattern(name)
}
