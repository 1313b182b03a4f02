package multiplex

import (
	"bytes"
	"context"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
)

// FanOut repeats, at the client's other upstream sessions, a message that applies to
// all of them. up is the upstream that the message m is routed to, whose response the
// client gets. The log level is stored for sessions that are opened later.
func (s *Sessions) FanOut(ctx context.Context, c Client, m *mcp.Message, up *upstream.Upstream) {
	if m.Method == mcp.MethodSetLevel {
		s.State.Settings.SetLevel(ctx, c.Handle.ID, m.Spans.Params.Of(m.Body))
	}
	if !s.Several() {
		return
	}
	switch m.Method {
	case mcp.MethodSetLevel:
	case mcp.NotificationRootsChanged:
	case mcp.NotificationCancelled:
		if !s.Replicated || up.Name != s.opts.Default {
			return
		}
		// The request may be in flight at another replica. An upstream that does not
		// know the request ignores its cancellation.
	default:
		return
	}
	for name, opened := range s.State.Upstream.All(ctx, c.Handle.ID) {
		other, ok := s.opts.Upstreams[name]
		if !ok || other == up {
			continue
		}
		body := bytes.Clone(m.Body)
		client := client.Client{Transport: other.Transport, Hops: c.Hops, Caller: c.Caller.Clone()}
		s.opts.Background.Run(func(ctx context.Context) { _ = client.Send(ctx, opened, body) })
	}
}

// Rejection is an error response to a request of an upstream.
type Rejection struct {
	// RequestID is the id of the client's HTTP request, for the log.
	RequestID string
	Hops      string
	Caller    *upstream.Caller
	Body      []byte
	// Session returns the session in which the upstream sent the request; false when
	// there is none.
	Session func(context.Context) (mcp.Session, bool)
}

// Reject sends an error response to an upstream in the background.
func (s *Sessions) Reject(up *upstream.Upstream, r Rejection) {
	client := client.Client{Transport: up.Transport, Hops: r.Hops, Caller: r.Caller.Clone()}
	ran := s.opts.Background.Run(func(ctx context.Context) {
		opened, ok := r.Session(ctx)
		if !ok {
			return
		}
		if err := client.Respond(ctx, opened, r.Body); err != nil {
			s.opts.Logger.Warn("the upstream was not notified that its request was denied", "upstream", up.Name, "request_id", r.RequestID, "error", err)
		}
	})
	if !ran {
		s.opts.Logger.Warn("the upstream was not notified that its request was denied: too many background calls", "upstream", up.Name, "request_id", r.RequestID)
	}
}

// Existing returns a function that finds the client's session at an upstream. It never
// opens one: an upstream sends requests only in existing sessions.
func (s *Sessions) Existing(c Client, up *upstream.Upstream) func(context.Context) (mcp.Session, bool) {
	if id := c.Handle.ID; up.Name != s.opts.Default {
		return func(ctx context.Context) (mcp.Session, bool) {
			opened, ok := s.State.Upstream.All(ctx, id)[up.Name]
			return opened, ok
		}
	}
	return Always(mcp.Session{ID: c.Handle.Upstream, Version: c.Version})
}

// Always returns a function that returns a known session.
func Always(s mcp.Session) func(context.Context) (mcp.Session, bool) {
	return func(context.Context) (mcp.Session, bool) { return s, true }
}
