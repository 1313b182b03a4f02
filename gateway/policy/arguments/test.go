package arguments

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"svc/gateway/mcp"
	"svc/gateway/mcp/match"
)

// test is a compiled [Test].
type test struct {
	absent bool
	// values are the sets of equals and one_of; the value must be in each.
	values []set
	// text are the conditions on a string, number those on a number.
	text []func(string) Outcome
	// costs are the bytes of plain reading that conditions on a string cost in addition.
	costs    []func(string) int
	min, max *decimal
	length   int // -1 for none
	kind     string
}

// set holds values that are compared by value, not by spelling.
type set struct {
	strings map[string]bool
	numbers []decimal       // ascending
	others  map[string]bool // true, false, null
}

// compile compiles a test that Check has accepted.
func compile(t *Test) test {
	c := test{absent: t.Absent, length: -1}
	if t.Equals != nil {
		c.values = append(c.values, newSet(t.Equals))
	}
	if t.OneOf != nil {
		c.values = append(c.values, newSet(t.OneOf...))
	}
	str := func(p *string, match func(value, want string) bool) {
		if p != nil {
			want := *p
			c.text = append(c.text, func(value string) Outcome { return holds(match(value, want)) })
		}
	}
	str(t.Prefix, strings.HasPrefix)
	str(t.Suffix, strings.HasSuffix)
	str(t.Contains, strings.Contains)
	if t.Glob != nil {
		if g, err := match.CompileGlob(*t.Glob); err == nil {
			c.text = append(c.text, func(value string) Outcome { return holds(g.Match(value)) })
		}
	}
	if t.Regex != nil {
		re := regexp.MustCompile(`^(?:` + *t.Regex + `)$`)
		c.text = append(c.text, func(value string) Outcome { return holds(re.MatchString(value)) })
	}
	if t.PathWithin != nil {
		root := *t.PathWithin
		c.costs = append(c.costs, pathCost)
		c.text = append(c.text, func(value string) Outcome {
			in, ok := pathWithin(root, value)
			if !ok {
				return WrongType
			}
			return holds(in)
		})
	}
	if t.HostIn != nil {
		hosts := newHosts(t.HostIn)
		c.costs = append(c.costs, hostCost)
		c.text = append(c.text, func(value string) Outcome {
			host, ok := hostOf(value)
			if !ok {
				return WrongType
			}
			return holds(hosts.has(host))
		})
	}
	for _, bound := range []struct {
		text json.RawMessage
		to   **decimal
	}{{t.Min, &c.min}, {t.Max, &c.max}} {
		if bound.text != nil {
			d := parseDecimal(bound.text)
			*bound.to = &d
		}
	}
	if t.MaxLength != nil {
		c.length = *t.MaxLength
	}
	if t.Type != nil {
		c.kind = *t.Type
	}
	return c
}

func newSet(values ...json.RawMessage) set {
	s := set{strings: map[string]bool{}, others: map[string]bool{}}
	for _, raw := range values {
		switch kindOf(raw) {
		case kindString:
			var text string
			if json.Unmarshal(raw, &text) == nil {
				s.strings[text] = true
			}
		case kindNumber:
			s.numbers = append(s.numbers, parseDecimal(bytes.Clone(raw)))
		default:
			s.others[string(raw)] = true
		}
	}
	slices.SortFunc(s.numbers, compareDecimals)
	return s
}

// has reports whether the set has a value; text is that of a string.
func (s *set) has(raw []byte, kind kind, text string) bool {
	switch kind {
	case kindString:
		return s.strings[text]
	case kindNumber:
		if len(s.numbers) == 0 {
			return false
		}
		_, found := slices.BinarySearchFunc(s.numbers, parseDecimal(raw), compareDecimals)
		return found
	case kindBoolean, kindNull:
		return s.others[string(raw)]
	}
	return false
}

// kind is the type of a JSON value.
type kind string

const (
	kindString  kind = "string"
	kindNumber  kind = "number"
	kindBoolean kind = "boolean"
	kindNull    kind = "null"
	kindArray   kind = "array"
	kindObject  kind = "object"
	// kindInteger is only a type name: the kind of a value is kindNumber.
	kindInteger kind = "integer"
)

// kindOf returns the type of a JSON value.
func kindOf(raw []byte) kind {
	switch {
	case len(raw) == 0:
		return ""
	case raw[0] == '"':
		return kindString
	case raw[0] == '{':
		return kindObject
	case raw[0] == '[':
		return kindArray
	case raw[0] == 't' || raw[0] == 'f':
		return kindBoolean
	case raw[0] == 'n':
		return kindNull
	}
	return kindNumber
}

// decide returns the outcome of the test for one value; the zero span is an absent value, on
// which only absent can hold.
func (t *test) decide(v *Values, at mcp.Span) Outcome {
	if !at.Present() {
		if t.absent {
			return Holds
		}
		return Missing
	}
	raw := at.Of(v.body)
	kind := kindOf(raw)
	var text string
	if kind == kindString && (len(t.values) > 0 || len(t.text) > 0 || t.length >= 0) {
		text = mcp.TextAlias(raw)
	}
	cost := len(raw) * (1 + len(t.text))
	if kind == kindString {
		for _, more := range t.costs {
			cost += more(text)
		}
	}
	if !v.take(cost) {
		return TooMuch
	}
	outcome := t.typed(raw, kind, text)
	if outcome != WrongType && (t.absent || !t.untyped(raw, kind, text)) {
		return Fails
	}
	return outcome
}

// untyped decides the members that accept values of every type.
func (t *test) untyped(raw []byte, kind kind, text string) bool {
	for i := range t.values {
		if !t.values[i].has(raw, kind, text) {
			return false
		}
	}
	return t.kind == "" || hasType(raw, kind, t.kind)
}

// typed decides the members that accept values of one type.
func (t *test) typed(raw []byte, kind kind, text string) Outcome {
	outcome := Holds
	if len(t.text) > 0 {
		if kind != kindString {
			return WrongType
		}
		for _, match := range t.text {
			switch match(text) {
			case WrongType:
				return WrongType
			case Fails:
				outcome = Fails
			}
		}
	}
	if t.min != nil || t.max != nil {
		if kind != kindNumber {
			return WrongType
		}
		d := parseDecimal(raw)
		if t.min != nil && d.compare(t.min) < 0 || t.max != nil && d.compare(t.max) > 0 {
			outcome = Fails
		}
	}
	if t.length >= 0 {
		long, ok := t.longer(raw, kind, text)
		if !ok {
			return WrongType
		}
		if long {
			outcome = Fails
		}
	}
	return outcome
}

// longer reports whether a value is longer than max_length; ok is false for a value without a
// length.
func (t *test) longer(raw []byte, kind kind, text string) (longer, ok bool) {
	var items mcp.Items
	switch kind {
	case kindString:
		return len(text) > t.length && utf8.RuneCountInString(text) > t.length, true
	case kindArray:
		items = mcp.Elements(raw, mcp.Span{Start: 0, End: len(raw)})
	case kindObject:
		items = mcp.Members(raw, mcp.Span{Start: 0, End: len(raw)})
	default:
		return false, false
	}
	n := 0
	for items.Next() {
		if n++; n > t.length {
			return true, true
		}
	}
	return false, true
}

// hasType reports whether a value is of a type of JSON Schema.
func hasType(raw []byte, have kind, want string) bool {
	if kind(want) == kindInteger {
		if have != kindNumber {
			return false
		}
		d := parseDecimal(raw)
		return d.integer()
	}
	return string(have) == want
}

// holds returns the outcome of a comparison.
func holds(ok bool) Outcome {
	if ok {
		return Holds
	}
	return Fails
}
