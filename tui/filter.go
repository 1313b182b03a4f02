package tui

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/server/client"
)

// filter is a parsed filter: a row must match all terms. The zero value matches
// everything.
type filter struct {
	terms        []term
	since, until time.Time // the period of the terms; zero for none
}

// term is one word of a filter.
type term struct {
	not   bool
	field string   // "" matches in all texts
	any   []string // lower case; the text must contain one of these
	exact string   // the text must be equal to this; "" for none
	text  string   // the term as it was written
	op    byte     // for numbers: '>' or '<'
	limit float64
}

// filterFields are the field names of terms, in the order of the help.
var filterFields = []string{"agent", "status", "tool", "model", "env", "policy", "pii", "session", "rule", "why", "principal", "client", "request", "id", "ms", "cost", "score", "since", "until"}

// outcomes are the values of status; a prefix is sufficient.
var outcomes = []string{"ok", "success", "error", "blocked", "failed"}

// figures are the numeric fields, as in ms:>500.
var figures = []string{"ms", "cost", "score"}

// parseFilter parses words such as
//
//	agent:support status:error,blocked tool:"delete order" -env:staging ms:>500 since:2h refund
//
// Case is ignored. A text may occur anywhere in the field. Several values of a term
// are alternatives. "-" negates a term. A value after "=" is the whole field, in its case.
func parseFilter(s string, now time.Time) (filter, error) {
	var f filter
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		var t term
		from := s
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
		t.text = strings.TrimSpace(from[:len(from)-len(s)])
		var err error
		if t.field == "since" || t.field == "until" {
			err = f.period(&t, value, now)
		} else {
			err = t.take(value)
		}
		if err != nil {
			return filter{}, err
		}
		f.terms = append(f.terms, t)
	}
	if !f.until.IsZero() && f.until.Before(f.since) {
		return filter{}, errors.New("until is before since")
	}
	return f, nil
}

// period takes the time of since or until.
func (f *filter) period(t *term, value string, now time.Time) error {
	first, last, err := parseTime(value, now, now)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", t.field, err)
	case t.not:
		return fmt.Errorf("%s: cannot be turned around; use since and until", t.field)
	case t.field == "since":
		f.since = first
	default:
		f.until = last
	}
	return nil
}

// ended reports whether no new trace can pass the filter.
func (f *filter) ended(now time.Time) bool { return !f.until.IsZero() && f.until.Before(now) }

// rest returns the text of the filter without its period.
func (f *filter) rest() string {
	var all []string
	for _, t := range f.terms {
		if t.field != "since" && t.field != "until" {
			all = append(all, t.text)
		}
	}
	return strings.Join(all, " ")
}

// query returns the parameters of GET /api/traces that every matching trace passes. The others of the
// filter have none: the control plane compares whole texts.
func (f *filter) query() (q client.TraceFilter) {
	q.Start, q.End = f.since, f.until
	for i := range f.terms {
		t := &f.terms[i]
		if t.not {
			continue
		}
		least, most := &t.limit, &t.limit
		if t.op == '>' {
			most = nil
		} else {
			least = nil
		}
		switch t.field {
		case "ms":
			if least != nil && *least >= 0 {
				q.MinDurationMs = least
			}
		case "cost":
			if t.limit >= 0 {
				q.MinCostUSD, q.MaxCostUSD = cmp.Or(least, q.MinCostUSD), cmp.Or(most, q.MaxCostUSD)
			}
		case "score":
			if least != nil && *least >= 0 && *least <= 1 {
				q.MinInjectionScore = least
			}
		case "status":
			if len(t.any) == 1 {
				q.Status = strings.Replace(t.any[0], "ok", "success", 1)
			}
		case "agent":
			q.AgentName = t.exact
		case "tool":
			q.ToolName = t.exact
		case "env":
			q.Environment = t.exact
		case "session":
			q.SessionID = t.exact
		case "rule":
			q.RuleID = t.exact
		case "principal":
			q.Principal = t.exact
		case "request":
			q.RequestID = t.exact
		}
	}
	return q
}

// CheckFilter returns the error of a filter, or nil.
func CheckFilter(s string) error {
	_, err := parseFilter(s, time.Now())
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
	if t.exact = strings.TrimPrefix(value, "="); len(t.exact) == len(value) || t.field == "status" {
		t.exact = ""
	} else if t.exact != "" {
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
	if at := r.trace.CreatedAt; at.Before(f.since) || !f.until.IsZero() && at.After(f.until) {
		return false
	}
	for i := range f.terms {
		if f.terms[i].match(r) == f.terms[i].not {
			return false
		}
	}
	return true
}

func (t *term) match(r *row) bool {
	switch t.field {
	case "since", "until":
		return true // compared by the filter
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
	if t.exact != "" {
		return r.field(t.field) == t.exact
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
