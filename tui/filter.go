package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// filter is a parsed filter: a row must match all terms. The zero value matches
// everything.
type filter struct{ terms []term }

// term is one word of a filter.
type term struct {
	not   bool
	field string   // "" matches in all texts
	any   []string // lower case; the text must contain one of these
	op    byte     // for numbers: '>' or '<'
	limit float64
}

// filterFields are the field names of terms, in the order of the help.
var filterFields = []string{"agent", "status", "tool", "model", "env", "policy", "pii", "session", "rule", "why", "principal", "client", "request", "id", "ms", "cost", "score"}

// outcomes are the values of status; a prefix is sufficient.
var outcomes = []string{"ok", "success", "error", "blocked", "failed"}

// figures are the numeric fields, as in ms:>500.
var figures = []string{"ms", "cost", "score"}

// parseFilter parses words such as
//
//	agent:support status:error,blocked tool:"delete order" -env:staging ms:>500 refund
//
// Case is ignored. A text may occur anywhere in the field. Several values of a term
// are alternatives. "-" negates a term.
func parseFilter(s string) (filter, error) {
	var f filter
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		var t term
		if rest, ok := strings.CutPrefix(s, "-"); ok && rest != "" && rest[0] != ' ' {
			t.not, s = true, rest
		}
		if name, rest, ok := strings.Cut(s, ":"); ok && fieldName(name) && !strings.HasPrefix(rest, "//") {
			t.field, s = strings.ToLower(name), rest
			if !slices.Contains(filterFields, t.field) {
				return filter{}, fmt.Errorf("no field %q: %s", t.field, strings.Join(filterFields, " "))
			}
		}
		var value string
		if value, s = word(s); value == "" {
			if t.field == "" {
				continue
			}
			return filter{}, fmt.Errorf("%s: needs a value", t.field)
		}
		if err := t.take(value); err != nil {
			return filter{}, err
		}
		f.terms = append(f.terms, t)
	}
	return f, nil
}

// CheckFilter returns the error of a filter, or nil.
func CheckFilter(s string) error {
	_, err := parseFilter(s)
	return err
}

// fieldName reports whether the text before a colon is a field name: a word, and
// not the beginning of a URL or of a quoted text.
func fieldName(s string) bool {
	if s == "" || len(s) > 12 {
		return false
	}
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// word removes the first word from the text. Blanks between quotes are part of the
// word; a missing closing quote is added at the end.
func word(s string) (value, rest string) {
	var b strings.Builder
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ' ' && !quoted:
			return b.String(), s[i:]
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}

func (t *term) take(value string) error {
	if slices.Contains(figures, t.field) {
		if t.op = value[0]; t.op != '<' && t.op != '>' {
			return fmt.Errorf("%s: write it like %s:>500 or %s:<500", t.field, t.field, t.field)
		}
		n, err := strconv.ParseFloat(strings.TrimPrefix(value[1:], "="), 64)
		if err != nil {
			return fmt.Errorf("%s: %q is not a number", t.field, value[1:])
		}
		t.limit = n
		return nil
	}
	if t.field == "" {
		t.any = []string{strings.ToLower(value)}
		return nil
	}
	for v := range strings.SplitSeq(strings.ToLower(value), ",") {
		if v == "" {
			continue
		}
		if t.field == "status" {
			known := slices.IndexFunc(outcomes, func(o string) bool { return strings.HasPrefix(o, v) })
			if known < 0 {
				return fmt.Errorf("status: %q is none of ok, error, blocked, failed", v)
			}
			v = strings.Replace(outcomes[known], "success", "ok", 1)
		}
		t.any = append(t.any, v)
	}
	return nil
}

func (f *filter) empty() bool { return len(f.terms) == 0 }

// match reports whether a row passes.
func (f *filter) match(r *row) bool {
	for i := range f.terms {
		if f.terms[i].match(r) == f.terms[i].not {
			return false
		}
	}
	return true
}

func (t *term) match(r *row) bool {
	switch t.field {
	case "":
		return strings.Contains(r.text, t.any[0])
	case "ms":
		return t.compare(r.trace.DurationMs)
	case "cost":
		return t.compare(r.trace.CostUSD)
	case "score":
		return t.compare(r.trace.InjectionScore)
	case "status":
		// Blocked and failed traces are errors too, as at the control plane.
		return slices.Contains(t.any, r.outcome.String()) || r.outcome != succeeded && slices.Contains(t.any, "error")
	}
	text := strings.ToLower(r.field(t.field))
	return slices.ContainsFunc(t.any, func(v string) bool { return strings.Contains(text, v) })
}

func (t *term) compare(v float64) bool {
	if t.op == '>' {
		return v >= t.limit
	}
	return v <= t.limit
}

func (r *row) field(name string) string {
	switch name {
	case "agent":
		return r.agent
	case "tool":
		return r.tool
	case "model":
		return r.model
	case "env":
		return r.env
	case "policy":
		return r.policies
	case "pii":
		return r.pii
	case "rule":
		return r.trace.RuleID
	case "why":
		return r.why + " " + r.trace.Reason + " " + r.trace.ErrorKind
	case "principal":
		return r.trace.Principal
	case "client":
		return r.trace.Client.String()
	case "request":
		return r.trace.RequestID
	case "session":
		return r.session
	}
	return r.id
}
