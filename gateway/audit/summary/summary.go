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
	}
}

func (s *Summary) request(r *audit.Record) {
	s.Frames += r.Frames
	if s.First.IsZero() || r.Time.Before(s.First) {
		s.First = r.Time
	}
	if r.Time.After(s.Last) {
		s.Last = r.Time
	}
	s.All.add(r)
	for field, groups := range s.groups {
		value := valueOf(field, r)
		if value == "" {
			continue
		}
		g := groups[value]
		switch {
		case g != nil:
		case len(groups) < maxGroups:
			g = &Group{Value: value}
			groups[value] = g
		default:
			if g = s.other[field]; g == nil {
				g = new(Group)
				s.other[field] = g
			}
		}
		g.add(r)
	}
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
