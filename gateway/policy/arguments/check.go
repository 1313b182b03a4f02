package arguments

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"svc/gateway/policy/match"
)

// Values of match.
const (
	matchAny = "any"
	matchAll = "all"
)

// maxValuesListed bounds one_of and host_in, maxText a text in bytes.
const (
	maxValuesListed = 10_000
	maxText         = 8 << 10
	// maxRegex bounds the instructions of a compiled regex: repetitions can turn a few bytes into
	// many instructions.
	maxRegex = 50_000
)

// typeNames are the values of type.
var typeNames = []string{string(kindString), string(kindNumber), string(kindInteger), string(kindBoolean), string(kindNull), string(kindArray), string(kindObject)}

// Check returns all errors of a condition, in the order of its pointers.
func Check(cfg Config) []*Error {
	var errs []*Error
	if cfg != nil && len(cfg) == 0 {
		errs = append(errs, &Error{Message: "there is no argument", Hint: "name one, as in /path, or remove arguments"})
	}
	if len(cfg) > maxEntries {
		return append(errs, &Error{Message: fmt.Sprintf("a condition may have %d arguments, this one has %d", maxEntries, len(cfg)), Hint: "write several rules"})
	}
	for _, pointer := range slices.Sorted(maps.Keys(cfg)) {
		m := cfg[pointer]
		c := checker{pointer: pointer, errs: &errs}
		c.matcher(&m)
	}
	return errs
}

// checker collects the errors in the matcher of one pointer.
type checker struct {
	pointer string
	not     bool
	errs    *[]*Error
}

func (c *checker) report(key, hint, format string, args ...any) {
	*c.errs = append(*c.errs, &Error{Pointer: c.pointer, Key: key, Not: c.not, Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (c *checker) matcher(m *Matcher) {
	steps, err := parsePointer(c.pointer)
	if err != nil {
		c.report("", "write / before each step; * stands for each element or member", "%v", err)
	}
	wildcard := slices.ContainsFunc(steps, func(s step) bool { return s.each })
	switch {
	case m.Match == "":
	case m.Match != matchAny && m.Match != matchAll:
		c.report("match", "use any or all", "match is %q", m.Match)
	case err == nil && !wildcard:
		c.report("match", "remove match", "match is for pointers with *, and this one has none")
	}
	if m.Not == nil && m.empty() {
		c.report("", "add a member such as equals, prefix or path_within", "the matcher is empty")
	}
	c.test(&m.Test)
	if m.Not != nil {
		c.not = true
		if m.Not.empty() {
			c.report("", "add a member such as equals, prefix or path_within", "not is empty")
		}
		c.test(m.Not)
	}
}

// empty reports whether a test has no members.
func (t *Test) empty() bool { return len(t.keys()) == 0 }

// keys returns the members that are set, and the type of value that each compares: "" for any
// type.
func (t *Test) keys() map[string]kind {
	out := map[string]kind{}
	for key, is := range map[string]struct {
		set  bool
		kind kind
	}{
		"equals": {t.Equals != nil, ""}, "one_of": {t.OneOf != nil, ""}, "type": {t.Type != nil, ""}, "absent": {t.Absent, ""},
		"max_length": {t.MaxLength != nil, ""},
		"prefix":     {t.Prefix != nil, kindString}, "suffix": {t.Suffix != nil, kindString}, "contains": {t.Contains != nil, kindString},
		"glob": {t.Glob != nil, kindString}, "regex": {t.Regex != nil, kindString},
		"path_within": {t.PathWithin != nil, kindString}, "host_in": {t.HostIn != nil, kindString},
		"min": {t.Min != nil, kindNumber}, "max": {t.Max != nil, kindNumber},
	} {
		if is.set {
			out[key] = is.kind
		}
	}
	return out
}

// test reports errors in the members of a test.
func (c *checker) test(t *Test) {
	keys := t.keys()
	kinds := map[kind]string{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if k := keys[key]; k != "" && kinds[k] == "" {
			kinds[k] = key
		}
	}
	if len(kinds) > 1 {
		c.report(kinds[kindNumber], "write two rules", "%s takes numbers and %s takes strings: no value is both", kinds[kindNumber], kinds[kindString])
	}
	if t.Absent && len(keys) > 1 {
		c.report("absent", "remove the other members, or absent", "an argument that is absent has no value for the other members")
	}
	c.values(t)
	c.texts(t)
	for _, bound := range []struct {
		key  string
		text json.RawMessage
	}{{"min", t.Min}, {"max", t.Max}} {
		if bound.text != nil {
			c.number(bound.key, bound.text)
		}
	}
	if n := t.MaxLength; n != nil && *n < 0 {
		c.report("max_length", "use 0 or more", "max_length is %d", *n)
	}
	if t.Type != nil && !slices.Contains(typeNames, *t.Type) {
		c.report("type", "use one of "+strings.Join(typeNames, ", "), "type is %q", *t.Type)
	}
}

// values reports errors in equals and one_of.
func (c *checker) values(t *Test) {
	if t.Equals != nil {
		c.scalar("equals", t.Equals)
	}
	switch {
	case t.OneOf == nil:
	case len(t.OneOf) == 0:
		c.report("one_of", "list a value", "one_of is empty")
	case len(t.OneOf) > maxValuesListed:
		c.report("one_of", "use a pattern", "one_of may list %d values, this one has %d", maxValuesListed, len(t.OneOf))
	}
	for _, v := range t.OneOf[:min(len(t.OneOf), maxValuesListed)] {
		c.scalar("one_of", v)
	}
}

// scalar reports a value that equals cannot compare.
func (c *checker) scalar(key string, raw json.RawMessage) {
	switch kindOf(raw) {
	case kindObject, kindArray, "":
		c.report(key, "point to a value inside it", "%s compares strings, numbers, booleans and null", key)
	case kindNumber:
		c.number(key, raw)
	}
}

// number reports a value that is not a number, or one whose exponent is out of range.
func (c *checker) number(key string, raw json.RawMessage) {
	if kindOf(raw) != kindNumber || !json.Valid(raw) {
		c.report(key, "write a number, as in 100 or 2.50", "%s is not a number", key)
		return
	}
	if d := parseDecimal(raw); d.point > 1000 || d.point < -1000 {
		c.report(key, "write a number between 1e-1000 and 1e1000", "%s is out of range", key)
	}
}

// texts reports errors in the members that take strings.
func (c *checker) texts(t *Test) {
	for _, m := range []struct {
		key   string
		value *string
	}{{"prefix", t.Prefix}, {"suffix", t.Suffix}, {"contains", t.Contains}, {"glob", t.Glob}, {"regex", t.Regex}, {"path_within", t.PathWithin}} {
		switch {
		case m.value == nil:
		case *m.value == "" && m.key != "regex":
			c.report(m.key, "remove it", "%s is empty", m.key)
		case len(*m.value) > maxText:
			c.report(m.key, "shorten it", "%s may have %d bytes, this one has %d", m.key, maxText, len(*m.value))
		}
	}
	if t.Glob != nil && *t.Glob != "" {
		if _, err := match.CompileGlob(*t.Glob); err != nil {
			c.report("glob", `write [!a-z] for a class that excludes, and \ before a literal character`, "%v", err)
		}
	}
	if t.Regex != nil {
		c.regex(*t.Regex)
	}
	if p := t.PathWithin; p != nil && *p != "" {
		if clean, ok := cleanPath(*p); !ok || clean != *p || path.Clean(*p) != *p {
			c.report("path_within", "write an absolute path as it is, without escapes, dot segments or a slash at the end", "path_within is %q", *p)
		}
	}
	c.hosts(t.HostIn)
}

// regex reports an expression that does not compile, or that compiles to too many instructions.
func (c *checker) regex(text string) {
	if len(text) > maxText {
		return // already reported
	}
	// First without the anchors: "a)(b" is not an expression.
	parsed, err := syntax.Parse(text, syntax.Perl)
	switch {
	case err != nil:
		c.report("regex", "the syntax is RE2", "%v", err)
		return
	case instructions(parsed) > maxRegex:
		c.report("regex", "use smaller counts, or max_length", "its repetitions compile to more than %d instructions", maxRegex)
		return
	}
	if _, err := regexp.Compile(`^(?:` + text + `)$`); err != nil {
		c.report("regex", "the syntax is RE2", "%v", err)
	}
}

// instructions estimates the number of instructions of a compiled expression.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// hosts reports errors in host_in.
func (c *checker) hosts(list []string) {
	switch {
	case list == nil:
		return
	case len(list) == 0:
		c.report("host_in", "list a host", "host_in is empty")
	case len(list) > maxValuesListed:
		c.report("host_in", "use *. for many hosts of one domain", "host_in may list %d hosts, this one has %d", maxValuesListed, len(list))
		return
	}
	for _, entry := range list {
		name := strings.TrimPrefix(entry, "*.")
		host, ok := match.Host(name)
		switch {
		case !ok || strings.ContainsAny(name, "*%"):
			c.report("host_in", "write a host without scheme, port and path, as in api.example.com or *.example.com", "%q is not a host", entry)
		case name != entry && isAddress(host):
			c.report("host_in", "write the address alone", "%q: an address has no subdomains", entry)
		}
	}
}

// isAddress reports whether a host in its canonical spelling is an address.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}
