package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"svc/server/api"
	"svc/server/client"
)

// Event is a trace on its way to the screen.
type Event struct {
	// ID is where to go on after this event; it belongs to the source.
	ID string
	// Trace is the trace; sources that know no spans leave them out.
	Trace api.Trace
	// Notes are what the source knows beyond the fields of a trace.
	Notes []Note
}

// Note is one line of a trace's details.
type Note struct{ Name, Value string }

// Source is where traces come from.
type Source interface {
	// Open begins to follow after the event with that ID. With none it begins
	// with a few of the newest traces. The stream ends with ctx.
	Open(ctx context.Context, after string) (Stream, error)
}

// Stream is an open source. Next waits for the next event; an error ends the
// stream, which may then be opened again. It is used by one goroutine.
type Stream interface {
	Next() (Event, error)
	// Cursor is where to go on: the ID of the last event, or a later place.
	Cursor() string
	Close() error
}

// Streamer is what a live source asks of the control plane; server/client is
// one.
type Streamer interface {
	StreamTraces(ctx context.Context, f client.TraceFilter, lastEventID string) (*client.TraceStream, error)
	ListTraces(ctx context.Context, q client.TraceQuery) (api.Page[api.TraceItem], error)
}

// recent is how many traces a live source begins with.
const recent = 200

// Live is the source of GET /api/traces/stream.
func Live(c Streamer) Source { return liveSource{c} }

type liveSource struct{ c Streamer }

// Open opens the stream before it lists what there is, so that no trace falls
// in between.
func (l liveSource) Open(ctx context.Context, after string) (Stream, error) {
	s, err := l.c.StreamTraces(ctx, client.TraceFilter{}, after)
	if err != nil {
		return nil, err
	}
	if after != "" {
		return &liveStream{s: s}, nil
	}
	page, err := l.c.ListTraces(ctx, client.TraceQuery{Page: client.Page{Limit: recent}})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	slices.Reverse(page.Data)
	seen := make(map[string]struct{}, len(page.Data))
	for _, t := range page.Data {
		seen[t.ID] = struct{}{}
	}
	return &liveStream{s: s, before: page.Data, seen: seen}, nil
}

// liveStream gives what was listed, and then what the stream has beyond it.
type liveStream struct {
	s      *client.TraceStream
	before []api.TraceItem
	seen   map[string]struct{}
}

func (l *liveStream) Next() (Event, error) {
	if len(l.before) > 0 {
		t := l.before[0]
		l.before = l.before[1:]
		return Event{Trace: api.Trace{TraceItem: t}}, nil
	}
	for {
		ev, err := l.s.Next()
		if err != nil {
			return Event{}, err
		}
		if _, known := l.seen[ev.Trace.ID]; known {
			delete(l.seen, ev.Trace.ID)
			continue
		}
		return Event{ID: ev.ID, Trace: api.Trace{TraceItem: ev.Trace}}, nil
	}
}

func (l *liveStream) Cursor() string { return l.s.LastEventID() }
func (l *liveStream) Close() error   { return l.s.Close() }

// Plane is what the screens ask of the control plane; server/client is one.
type Plane interface {
	GetTrace(ctx context.Context, id string) (api.Trace, error)
	TraceStats(ctx context.Context, q client.StatsQuery) (api.TraceStats, error)
	ListAgents(ctx context.Context, q client.AgentQuery) (api.Page[api.AgentItem], error)
	ListAgentTools(ctx context.Context, id string, p client.Page) (api.Page[api.AgentTool], error)
	ListPolicies(ctx context.Context, q client.PolicyQuery) (api.Page[api.Policy], error)
	UpdatePolicy(ctx context.Context, id string, in api.PolicyUpdate) (api.Policy, error)
	ListBudgets(ctx context.Context) (api.List[api.Budget], error)
	ListSLAs(ctx context.Context) (api.List[api.SLATarget], error)
	ListViolations(ctx context.Context, q client.ViolationQuery) (api.List[api.SLAViolation], error)
}

// gap reports whether a stream refused the place where it should go on: the
// control plane has another history than the one that was followed.
func gap(err error) bool {
	var answer *client.Error
	return errors.As(err, &answer) && answer.Status == 400
}

// errSilent stands for a source that took too long to open.
var errSilent = fmt.Errorf("no answer: %w", context.DeadlineExceeded)
