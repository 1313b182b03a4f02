package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"svc/server/client"
	"svc/store/api"
)

// Event is a trace for the screen.
type Event struct {
	// ID is the position to resume from after this event; its format depends
	// on the source.
	ID string
	// Trace is the trace, without spans when the source has none.
	Trace api.Trace
	// Notes are additional data of the source for which a trace has no field.
	Notes []Note
}

// Note is one line of a trace's details.
type Note struct{ Name, Value string }

// Source is a source of traces.
type Source interface {
	// Open follows the source after the event with that ID. Without an ID it
	// begins with a few of the newest traces. The stream ends with ctx.
	Open(ctx context.Context, after string) (Stream, error)
}

// Stream is an open source. Next waits for the next event; an error ends the
// stream, which may then be opened again. It must be used by one goroutine.
type Stream interface {
	Next() (Event, error)
	// Cursor returns the position to resume from: the ID of the last event,
	// or a later position.
	Cursor() string
	Close() error
}

// recent is the number of traces at the start of a live source.
const recent = 200

// Live is the source for GET /api/traces/stream.
func Live(c *client.Client) Source { return liveSource{c} }

type liveSource struct{ c *client.Client }

// Open opens the stream before it lists the newest traces, so that no trace
// is missed.
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

// liveStream returns the listed traces, and then those of the stream that
// were not listed.
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

// Plane has the methods of the control plane's client that the screens call;
// server/client implements it.
type Plane interface {
	// Alive returns when the control plane has answered anything.
	Alive(ctx context.Context) error
	ListTraces(ctx context.Context, q client.TraceQuery) (api.Page[api.TraceItem], error)
	GetTrace(ctx context.Context, id string) (api.Trace, error)
	TraceStats(ctx context.Context, q client.StatsQuery) (api.TraceStats, error)
	ListAgents(ctx context.Context, q client.AgentQuery) (api.Page[api.AgentItem], error)
	ListAgentTools(ctx context.Context, id string, p client.Page) (api.Page[api.AgentTool], error)
	ListPolicies(ctx context.Context, q client.PolicyQuery) (api.Page[api.Policy], error)
	UpdatePolicy(ctx context.Context, id string, in api.PolicyUpdate) (api.Policy, error)
	ListBudgets(ctx context.Context) (api.List[api.Budget], error)
	ListSLAs(ctx context.Context) (api.List[api.SLATarget], error)
	ListApprovals(ctx context.Context, q client.ApprovalQuery) (api.Page[api.ApprovalRecord], error)
	GetApproval(ctx context.Context, id string) (api.ApprovalRecord, error)
	DecideApproval(ctx context.Context, id string, in api.ApprovalDecision) (api.ApprovalRecord, error)
	ListGateways(ctx context.Context, all bool) (api.List[api.Gateway], error)
	ListViolations(ctx context.Context, q client.ViolationQuery) (api.List[api.SLAViolation], error)
}

// gap reports whether a stream was refused because its position is unknown:
// the control plane has another history than before.
func gap(err error) bool {
	var answer *client.Error
	return errors.As(err, &answer) && answer.Status == 400
}

// errSilent is the error of a source that was not opened in time.
var errSilent = fmt.Errorf("no answer: %w", context.DeadlineExceeded)
