package audit

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Field is a field that requests can be grouped by.
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

// Fields are all fields.
func Fields() []Field {
	return []Field{ByAction, ByRule, ByError, ByMethod, ByTool, ByUpstream, ByPrincipal, ByAgent, ByStatus, ByDialect}
}

// maxGroups bounds the values of one field; requests with further values are counted in Other.
const maxGroups = 10_000

// Group has the counts of the requests with one value of a field.
type Group struct {
	Value    string
	Requests uint64
	// Denied counts refused requests: deny and rate_limit_blocked.
	Denied uint64
	// Failed counts requests that were allowed and whose response was an error.
	Failed   uint64
	BytesIn  int64
	BytesOut int64
	Duration Durations
}

// add counts a request, as failed if it was not denied.
func (g *Group) add(r *Record, failed bool) {
	g.Requests++
	switch {
	case r.Action == "deny" || r.Action == "rate_limit_blocked":
		g.Denied++
	case failed:
		g.Failed++
	}
	g.BytesIn += r.BytesIn
	g.BytesOut += r.BytesOut
	g.Duration.Add(r.Duration)
}

// addCounted counts requests without a line of their own, of which only the action and the error
// are known.
func (g *Group) addCounted(n uint64, denied bool) {
	g.Requests += n
	if denied {
		g.Denied += n
	}
}

// Summary is the aggregate of lines. Create it with [NewSummary]. It is not safe for concurrent use.
type Summary struct {
	// All counts every request. It does not count streams that were opened to listen.
	All Group
	// Listening counts the streams that clients opened to listen and that have ended. They are no
	// part of All and of the groups, because they last as long as the client runs: their durations
	// are no latencies, and a client that closes one is no failure.
	Listening Group
	// First and Last are the times of the earliest and the latest request.
	First, Last time.Time
	// Lines counts all lines; Streams those that opened an event stream; Frames the frames of
	// streams.
	Lines, Streams uint64
	Frames         int64
	// Checkpoints counts the checkpoint lines, Starts the processes that opened the log.
	Checkpoints, Starts uint64
	// Lost is the number of lines that could not be written, as reported by checkpoints.
	Lost uint64
	// Counted are the requests of All that have no line of their own. Their bytes and durations
	// are not known.
	Counted uint64

	listenEnded func(*Record) bool

	groups map[Field]map[string]*Group
	other  map[Field]*Group
}

// NewSummary returns an empty summary that groups by the given fields. listenEnded reports whether a
// stream that was opened to listen ended as such streams do: refusal.ListenEnded.
func NewSummary(listenEnded func(*Record) bool, by ...Field) *Summary {
	s := &Summary{listenEnded: listenEnded, groups: make(map[Field]map[string]*Group), other: make(map[Field]*Group)}
	for _, f := range by {
		s.groups[f] = make(map[string]*Group)
	}
	return s
}

// Add adds one line.
func (s *Summary) Add(r *Record) {
	s.Lines++
	switch r.Kind {
	case KindCheckpoint:
		s.Checkpoints++
		if r.Checkpoint != nil {
			s.Lost += r.Checkpoint.Lost
			if r.Checkpoint.Event == eventStart {
				s.Starts++
			}
		}
	case KindOpen:
		s.Streams++
	case KindRequest:
		s.request(r)
	case KindSummary:
		if r.Refused != nil {
			s.refused(r)
		}
	}
}

func (s *Summary) request(r *Record) {
	s.Frames += r.Frames
	s.reach(r.Time, r.Time)
	if Listens(r) {
		s.Listening.add(r, !s.listenEnded(r))
		return
	}
	failed := r.IsError || r.Status >= 400 || r.ErrorKind != ""
	s.All.add(r, failed)
	for field := range s.groups {
		if value := valueOf(field, r); value != "" {
			s.group(field, value).add(r, failed)
		}
	}
}

// refused counts the requests of a line of KindSummary: by action and error, and by principal,
// which is the address of an unidentified caller.
func (s *Summary) refused(r *Record) {
	s.reach(r.Time, r.Time.Add(r.Duration))
	n := r.Refused.Requests()
	s.Counted += n
	preflights := r.Refused.preflights()
	s.All.addCounted(n, !preflights)
	for field := range s.groups {
		switch field {
		case ByAction:
			for i := range r.Refused.Counts {
				c := &r.Refused.Counts[i]
				s.group(field, c.Action()).addCounted(c.Requests, c.ErrorKind != CountPreflight)
			}
		case ByError:
			for _, c := range r.Refused.Counts {
				if c.ErrorKind != CountPreflight {
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

// reach extends the time range of the requests.
func (s *Summary) reach(from, to time.Time) {
	if s.First.IsZero() || from.Before(s.First) {
		s.First = from
	}
	if to.After(s.Last) {
		s.Last = to
	}
}

// group returns the group of a value, or the rest when there are too many values.
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

// rest returns the group of the requests with further values.
func (s *Summary) rest(field Field) *Group {
	g := s.other[field]
	if g == nil {
		g = new(Group)
		s.other[field] = g
	}
	return g
}

// Top returns the n largest groups of a field, largest first, and the number of requests in the
// others.
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

func valueOf(field Field, r *Record) string {
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
