// Package summary adds up audit lines: how many requests, what became of them,
// who made them, how long they took. Memory is bounded whatever the lines say.
package summary

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"svc/gateway/audit"
)

// Field is what requests can be grouped by.
type Field string

// The fields.
const (
	ByAction    Field = "action"
	ByRule      Field = "rule"
	ByError     Field = "error"
	ByMethod    Field = "method"
	ByTool      Field = "tool"
	ByUpstream  Field = "upstream"
	ByPrincipal Field = "principal"
	ByAgent     Field = "agent"
	ByStatus    Field = "status"
	ByDialect   Field = "dialect"
)

// Fields are all of them.
func Fields() []Field {
	return []Field{ByAction, ByRule, ByError, ByMethod, ByTool, ByUpstream, ByPrincipal, ByAgent, ByStatus, ByDialect}
}

// maxGroups bounds the values of one field; what comes later is counted in
// Other.
const maxGroups = 10_000

// Group is the requests with one value of a field.
type Group struct {
	Value    string
	Requests uint64
	// Denied counts those that were not let through: deny and
	// rate_limit_blocked.
	Denied uint64
	// Failed counts those let through whose answer was an error.
	Failed   uint64
	BytesIn  int64
	BytesOut int64
	Duration Durations
}

func (g *Group) add(r *audit.Record) {
	g.Requests++
	switch {
	case r.Action == "deny" || r.Action == "rate_limit_blocked":
		g.Denied++
	case r.IsError || r.Status >= 400 || r.ErrorKind != "":
		g.Failed++
	}
	g.BytesIn += r.BytesIn
	g.BytesOut += r.BytesOut
	g.Duration.Add(r.Duration)
}

// addCounted counts requests of which nothing else is known.
func (g *Group) addCounted(n uint64, denied bool) {
	g.Requests += n
	if denied {
		g.Denied += n
	}
}

// Summary is what lines add up to. The zero value is not usable: see [New]. It
// is used by one goroutine at a time.
type Summary struct {
	// All is every request.
	All Group
	// First and Last are the times of the earliest and the latest request.
	First, Last time.Time
	// Lines counts all lines; Streams those that opened an event stream; Frames
	// the frames that streams carried.
	Lines, Streams uint64
	Frames         int64
	// Checkpoints and Starts count the lines of the log itself, and processes.
	Checkpoints, Starts uint64
	// Lost is how many lines could not be written, as checkpoints tell.
	Lost uint64
	// Counted are the requests of All that have no line of their own. Nothing is
	// known of their bytes and durations.
	Counted uint64

	groups map[Field]map[string]*Group
	other  map[Field]*Group
}

// New returns an empty summary that groups by the given fields.
func New(by ...Field) *Summary {
	s := &Summary{groups: make(map[Field]map[string]*Group), other: make(map[Field]*Group)}
	for _, f := range by {
		s.groups[f] = make(map[string]*Group)
	}
	return s
}

// Add counts one line.
func (s *Summary) Add(r *audit.Record) {
	s.Lines++
	switch r.Kind {
	case audit.KindCheckpoint:
		s.Checkpoints++
		if r.Checkpoint != nil {
			s.Lost += r.Checkpoint.Lost
			if r.Checkpoint.Event == audit.EventStart {
				s.Starts++
			}
		}
	case audit.KindOpen:
		s.Streams++
	case audit.KindRequest:
		s.request(r)
	case audit.KindSummary:
		if r.Refused != nil {
			s.refused(r)
		}
	}
}

func (s *Summary) request(r *audit.Record) {
	s.Frames += r.Frames
	s.reach(r.Time, r.Time)
	s.All.add(r)
	for field := range s.groups {
		if value := valueOf(field, r); value != "" {
			s.group(field, value).add(r)
		}
	}
}

// refused counts the requests of a line of KindSummary: by action and error, and by
// principal, which is the address of a caller who was not identified.
func (s *Summary) refused(r *audit.Record) {
	s.reach(r.Time, r.Time.Add(r.Duration))
	n := r.Refused.Requests()
	s.Counted += n
	preflights := !slices.ContainsFunc(r.Refused.Counts, func(c audit.KindCount) bool { return c.ErrorKind != audit.CountPreflight })
	s.All.addCounted(n, !preflights)
	for field := range s.groups {
		switch field {
		case ByAction:
			for i := range r.Refused.Counts {
				c := &r.Refused.Counts[i]
				s.group(field, c.Action()).addCounted(c.Requests, c.ErrorKind != audit.CountPreflight)
			}
		case ByError:
			for _, c := range r.Refused.Counts {
				if c.ErrorKind != audit.CountPreflight {
					s.group(field, c.ErrorKind).addCounted(c.Requests, true)
				}
			}
		case ByPrincipal:
			unnamed := n
			for _, a := range r.Refused.Addresses {
				s.group(field, a.Address).addCounted(a.Requests, !preflights)
				unnamed -= min(unnamed, a.Requests)
			}
			s.rest(field).addCounted(unnamed, !preflights)
		}
	}
}

// reach notes when requests came.
func (s *Summary) reach(from, to time.Time) {
	if s.First.IsZero() || from.Before(s.First) {
		s.First = from
	}
	if to.After(s.Last) {
		s.Last = to
	}
}

// group returns the group of a value, or the rest where there are too many.
func (s *Summary) group(field Field, value string) *Group {
	groups := s.groups[field]
	g := groups[value]
	switch {
	case g != nil:
		return g
	case len(groups) < maxGroups:
		g = &Group{Value: value}
		groups[value] = g
		return g
	}
	return s.rest(field)
}

// rest is the group of requests whose values are not told apart.
func (s *Summary) rest(field Field) *Group {
	g := s.other[field]
	if g == nil {
		g = new(Group)
		s.other[field] = g
	}
	return g
}

// Top returns the n largest groups of a field, largest first, and how many
// requests the rest has.
func (s *Summary) Top(field Field, n int) (top []*Group, rest uint64) {
	for _, g := range s.groups[field] {
		top = append(top, g)
		rest += g.Requests
	}
	if g := s.other[field]; g != nil {
		rest += g.Requests
	}
	slices.SortFunc(top, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Value, b.Value))
	})
	top = top[:min(n, len(top))]
	for _, g := range top {
		rest -= g.Requests
	}
	return top, rest
}

func valueOf(field Field, r *audit.Record) string {
	switch field {
	case ByAction:
		return r.Action
	case ByRule:
		return r.RuleID
	case ByError:
		return r.ErrorKind
	case ByMethod:
		return r.Method
	case ByTool:
		return r.Tool
	case ByUpstream:
		return r.Upstream
	case ByPrincipal:
		return r.Principal
	case ByAgent:
		return r.Agent
	case ByStatus:
		if r.Status > 0 {
			return strconv.Itoa(r.Status)
		}
	case ByDialect:
		return r.Dialect
	}
	return ""
}
