package gateway

import (
	"context"

	"svc/gateway/mcp"
	"svc/gateway/mcpclient"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/transport"
)

// rejectRequest answers a request of the server that policy keeps from the
// client: the call that it belongs to would wait for it for ever.
func (src *source) rejectRequest(m *mcp.Message) {
	ex, at := src.ex, src.session
	ex.g.rejectServerRequest(src.up, rejection{
		requestID: ex.rec.RequestID, hops: ex.hops,
		body:    mcp.AppendError(nil, m.ID, mcp.CodePolicyDenied, mcp.MessagePolicyDenied, refusal.Policy.Reason, ex.rec.RequestID),
		session: func(context.Context) (session.UpstreamSession, bool) { return at, true },
	})
}

// rejectStopped answers a server's request in the place of the client, whose answer
// to it was refused, whatever refused it: the call that it belongs to would wait for
// the answer for ever. It does nothing for callers who were not identified, and
// nothing once the answer was sent.
func (ex *exchange) rejectStopped(refused *refusal.Refusal) {
	sent := !ex.sentUp.IsZero() && refused != &refusal.Header // which the upstream client found before it sent anything
	if ex.rejected || !ex.identified || sent || ex.msg.Kind != mcp.Response || len(ex.msg.ID) == 0 {
		return
	}
	ex.rejected = true
	if !ex.untagged && (ex.openSession() != nil || ex.untag() != nil) {
		return // it was refused before its session was opened, and has none
	}
	t := ex.follow()
	if t == nil {
		t = ex.g.targets[ex.g.defaultUpstream]
	}
	if ex.unknown != nil || t == nil {
		return
	}
	code, message := refused.Code, refused.Message
	if code != mcp.CodePolicyDenied {
		code = mcp.CodeInternal // the other codes are about the client and its HTTP request
	}
	id := ex.rec.RequestID
	ex.g.rejectServerRequest(t, rejection{
		requestID: id, hops: ex.hops,
		body:    mcp.AppendError(nil, ex.msg.ID, code, message, refused.Reason, id),
		session: ex.existingSession(t),
	})
}

// existingSession returns how to find the session that the client has at an
// upstream. One is never opened: a server asks only in sessions that there are.
func (ex *exchange) existingSession(t *transport.Upstream) func(context.Context) (session.UpstreamSession, bool) {
	var here session.UpstreamSession
	if ex.g.versions.Allows(ex.dialect) {
		here.Version = ex.dialect.Version
	}
	if ex.hasHandle && t.Name != ex.g.defaultUpstream {
		pairs, id := ex.g.pairs, ex.handle.ID
		return func(ctx context.Context) (session.UpstreamSession, bool) {
			opened, ok := pairs.All(ctx, id)[t.Name]
			return opened, ok
		}
	}
	if ex.hasHandle {
		here.ID = ex.handle.Upstream
	}
	return func(context.Context) (session.UpstreamSession, bool) { return here, true }
}

// rejection is an error to send in answer to a server's request.
type rejection struct {
	requestID string // of the client's request, for the log
	hops      string
	body      []byte
	// session finds the session in which the server asked; false when there is none.
	session func(context.Context) (session.UpstreamSession, bool)
}

// rejectServerRequest sends an error to an upstream in the background.
func (g *Gateway) rejectServerRequest(t *transport.Upstream, r rejection) {
	ran := g.background.Run(func(ctx context.Context) {
		opened, ok := r.session(ctx)
		if !ok {
			return
		}
		client := mcpclient.Client{Transport: t.Transport, Hops: r.hops}
		if err := client.Respond(ctx, opened, r.body); err != nil {
			g.log.Warn("upstream was not told that its request was denied", "upstream", t.Name, "request_id", r.requestID, "error", err)
		}
	})
	if !ran {
		g.log.Warn("upstream was not told that its request was denied: too many background calls", "upstream", t.Name, "request_id", r.requestID)
	}
}
