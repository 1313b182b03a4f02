package arguments

import (
	"fmt"
	"maps"
	"slices"

	"svc/gateway/mcp"
)

// Condition is a compiled when.arguments. It is immutable and safe for concurrent use.
type Condition struct {
	entries []entry
}

// entry is one pointer with its matcher.
type entry struct {
	pointer  int
	text     string
	all      bool
	wildcard bool
	test     test
	not      *test
}

// Error is an error in a condition: at Pointer, in the member Key of its matcher (Not: of its
// not), and what to do.
type Error struct {
	Pointer, Key string
	Not          bool
	Message      string
	Hint         string
}

func (e *Error) Error() string {
	where := e.Pointer
	if e.Not {
		where += " not"
	}
	if e.Key != "" {
		where += " " + e.Key
	}
	return where + ": " + e.Message
}

// Add compiles a condition. all is the default of match for a pointer with *.
func (p *Plan) Add(cfg Config, all bool) (*Condition, error) {
	if errs := Check(cfg); len(errs) > 0 {
		return nil, errs[0]
	}
	c := &Condition{}
	for _, pointer := range slices.Sorted(maps.Keys(cfg)) {
		m := cfg[pointer]
		id, wildcard, err := p.add(pointer)
		if err != nil {
			return nil, &Error{Pointer: pointer, Message: err.Error()}
		}
		e := entry{pointer: id, text: pointer, wildcard: wildcard, all: all, test: compile(&m.Test)}
		if m.Match != "" {
			e.all = m.Match == matchAll
		}
		if m.Not != nil {
			t := compile(m.Not)
			e.not = &t
		}
		c.entries = append(c.entries, e)
	}
	return c, nil
}

// Decide returns the outcome of the condition for a request's values. It does not allocate,
// except for strings with escapes, hosts and paths.
func (c *Condition) Decide(v *Values) Outcome {
	outcome := Holds
	for i := range c.entries {
		outcome = outcome.and(c.entries[i].decide(v))
		if v.more {
			return TooMuch
		}
		if outcome == Fails {
			return Fails
		}
	}
	return outcome
}

// Explain describes the first entry with the outcome of the condition; "" for a condition that
// holds.
func (c *Condition) Explain(v *Values) string {
	outcome := c.Decide(v)
	if outcome == TooMuch {
		return fmt.Sprintf("the arguments have more than the %d values, or %d MiB, that are examined", maxValues, maxBytes>>20)
	}
	for i := range c.entries {
		if e := &c.entries[i]; outcome != Holds && e.decide(v) == outcome {
			switch outcome {
			case Missing:
				return fmt.Sprintf("there is no argument %s", e.text)
			case WrongType:
				return fmt.Sprintf("the argument %s is of another type than its matcher takes, or ambiguous", e.text)
			}
			return fmt.Sprintf("the argument %s does not match", e.text)
		}
	}
	return ""
}

// Pointers returns the pointers of the condition, sorted.
func (c *Condition) Pointers() []string {
	out := make([]string, len(c.entries))
	for i := range c.entries {
		out[i] = c.entries[i].text
	}
	return out
}

// decide returns the outcome of one entry.
func (e *entry) decide(v *Values) Outcome {
	f := v.of[e.pointer]
	// For absent: true, a missing value is a value.
	absent := Missing
	if f.missing || f.first == 0 {
		absent = e.one(v, mcp.Span{})
	}
	if !e.wildcard {
		switch {
		case f.wrong:
			return WrongType
		case f.first == 0:
			return absent
		}
		return e.one(v, v.at[f.first-1].value)
	}
	if e.all {
		return e.every(v, f, absent)
	}
	return e.any(v, f, absent)
}

// every is the outcome if all values must match: one value of a wrong type makes the outcome
// WrongType.
func (e *entry) every(v *Values, f found, absent Outcome) Outcome {
	outcome := Holds
	if f.missing || f.first == 0 {
		outcome = absent
	}
	wrong := f.wrong
	for i := f.first; i != 0 && !wrong && !v.more; i = v.at[i-1].next {
		o := e.one(v, v.at[i-1].value)
		wrong = o == WrongType
		outcome = outcome.and(o)
	}
	if wrong {
		return WrongType
	}
	return outcome
}

// any is the outcome if one value must match. A value that is missing or of a wrong type counts
// only if no value matches.
func (e *entry) any(v *Values, f found, absent Outcome) Outcome {
	outcome := Fails
	if f.missing || f.first == 0 {
		outcome = absent
	}
	if f.wrong {
		outcome = max(outcome, WrongType)
	}
	for i := f.first; i != 0 && outcome != Holds && !v.more; i = v.at[i-1].next {
		outcome = max(outcome, e.one(v, v.at[i-1].value))
	}
	return outcome
}

// one is the outcome for one value; the zero span is an absent value. A wrong type for any member
// of the matcher is a wrong type for the matcher.
func (e *entry) one(v *Values, at mcp.Span) Outcome {
	outcome := e.test.decide(v, at)
	if e.not == nil || outcome == WrongType {
		return outcome
	}
	switch not := e.not.decide(v, at).not(); not {
	case WrongType:
		return WrongType
	default:
		return outcome.and(not)
	}
}
