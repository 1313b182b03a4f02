package gateway

import (
	"context"
	"net/http"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/tag"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// serveStream answers GET /mcp: the standalone event stream on which a server
// reaches a legacy client between requests, and on which a client resumes a
// stream that broke. It carries no method, so no rule decides on the request
// itself; its frames are judged like all others.
func (ex *exchange) serveStream() *refusal.Refusal {
	defer ex.endsAtStop()()
	if refused := ex.openControl(); refused != nil {
		return refused
	}
	if ex.g.audit.Ready() != nil {
		return &refusal.Audit
	}
	if !ex.session.Several() {
		return ex.passStream(ex.r.Header.Get(mcp.HeaderLastEventID))
	}
	last := ex.r.Header.Get(mcp.HeaderLastEventID)
	name, id, ok := tag.UntagPost(last)
	if !ok {
		return ex.mergeStreams(tag.UntagStanding(last))
	}
	// The answer to a POST broke off: the one upstream that gave it goes on.
	if ex.up, ok = ex.g.targets[name]; !ok {
		return &refusal.NoRoute
	}
	if err := ex.session.Find(ex.ctx, ex.up); err != nil {
		return ex.refuseUpstream(err)
	}
	return ex.passStream(id)
}

// passStream opens the stream of one upstream and passes it on.
func (ex *exchange) passStream(lastID string) *refusal.Refusal {
	ex.sentUp = ex.now()
	resp, err := ex.session.Send(ex.ctx, ex.up, func(again bool) (*upstream.Response, error) {
		if again {
			lastID = "" // the position was one of the session that was lost
		}
		return ex.get(ex.ctx, ex.up, ex.session.There, lastID)
	})
	if err != nil {
		return ex.refuseUpstream(err)
	}
	defer resp.Body.Close()
	if resp.Status == http.StatusMethodNotAllowed {
		return &refusal.NoStream
	}
	return ex.relay(resp)
}

// get asks an upstream for its standalone stream.
func (ex *exchange) get(ctx context.Context, t *transport.Upstream, s session.UpstreamSession, lastID string) (*upstream.Response, error) {
	header, caller := ex.appendHeader(nil), ex.session.Caller()
	header.Del(mcp.HeaderLastEventID)
	return t.Transport.Listen(ctx, &transport.Request{
		Session: ex.session.SessionAt(s), Caller: &caller, Header: header, LastEventID: lastID,
		// Silent by nature: only the first byte has a time limit.
		Timeouts: &upstream.Timeouts{FirstByte: t.Timeout},
	})
}

// serveEnd answers DELETE /mcp: the client ends its session, everywhere the
// gateway opened one for it.
func (ex *exchange) serveEnd() *refusal.Refusal {
	if refused := ex.openControl(); refused != nil {
		return refused
	}
	if ex.g.audit.Ready() != nil {
		return &refusal.Audit
	}
	if ex.session.Several() && ex.session.Handle.Upstream == "" {
		// The default upstream made no session: what there is to end the gateway
		// has opened itself.
		ex.endSessions()
		if err := ex.account(http.StatusNoContent, 0); err != nil {
			return &refusal.Audit
		}
		ex.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	ex.sentUp = ex.now()
	caller := ex.session.Caller()
	resp, err := ex.up.Transport.End(ex.ctx, &transport.Request{Session: ex.session.SessionAt(ex.session.There), Caller: &caller, Header: ex.appendHeader(nil)})
	if err != nil {
		return ex.refuseUpstream(err)
	}
	defer resp.Body.Close()
	if ex.session.Joined && (resp.Status < 300 || resp.Status == http.StatusNotFound) {
		ex.endSessions()
	}
	if resp.Status == http.StatusMethodNotAllowed {
		refused := refusal.NoStream
		refused.Allow = "GET, POST"
		return &refused
	}
	return ex.relay(resp)
}

// openControl takes a request without a body as far as its upstream: the
// caller, the session, the default upstream.
func (ex *exchange) openControl() *refusal.Refusal {
	if refused := ex.authenticate(); refused != nil {
		return refused
	}
	if refused := ex.body.Discard(ex.source(), &ex.msg); refused != nil {
		return refused
	}
	if refused := ex.resolveDialect(); refused != nil {
		return refused
	}
	if ex.dialect.Modern {
		// The stateless revision knows neither sessions nor standalone streams.
		return &refusal.NoStream
	}
	if refused := ex.session.Join(ex.ctx); refused != nil {
		return refused
	}
	up, ok := ex.g.targets[ex.g.defaultUpstream]
	if !ok {
		return &refusal.NoRoute
	}
	ex.up = up
	if refused := ex.underPolicies(); refused != nil {
		return refused
	}
	ex.rec.Action = audit.ActionAllow
	if err := ex.session.Find(ex.ctx, ex.up); err != nil {
		return ex.refuseUpstream(err)
	}
	return nil
}

// endSessions ends the client's session: those that the gateway opened for it at
// other upstreams, and its merged stream. The default upstream was told.
func (ex *exchange) endSessions() {
	ex.g.sessions.End(ex.ctx, ex.session.Handle.ID, ex.up)
	ex.g.merged.End(ex.session.Handle.ID)
}
