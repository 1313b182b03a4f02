package forwarding

import (
	"net/http"

	"svc/gateway/exchange"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/streaming"
	"svc/gateway/tag"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// Stream serves GET /mcp: the standalone event stream on which a server sends messages to a
// legacy client between requests, and on which a client resumes an interrupted stream. The
// request has no method, so no rule applies to it; its frames are judged like all others.
func Stream(ex *exchange.Exchange) *refusal.Refusal {
	defer ex.EndsAtStop()()
	if refused := ex.OpenControl(); refused != nil {
		return refused
	}
	if ex.Services.Audit.Ready() != nil {
		return &refusal.Audit
	}
	if !ex.Session.Several() {
		return pass(ex, ex.HTTP.Header.Get(mcp.HeaderLastEventID))
	}
	last := ex.HTTP.Header.Get(mcp.HeaderLastEventID)
	name, id, ok := tag.UntagPost(last)
	if !ok {
		return streaming.Merge(ex, tag.UntagStanding(last))
	}
	// The interrupted response to a POST is resumed at the upstream that sent it.
	if ex.Upstream, ok = ex.Services.Targets[name]; !ok || !ex.Session.View.Has(name) {
		return &refusal.NoRoute
	}
	if err := ex.Session.Find(ex.Context, ex.Upstream); err != nil {
		return ex.RefuseUpstream(err)
	}
	return pass(ex, id)
}

// pass opens the stream of one upstream and relays it.
func pass(ex *exchange.Exchange, lastID string) *refusal.Refusal {
	ex.SentUp = ex.Now()
	resp, err := ex.Session.Send(ex.Context, ex.Upstream, func(again bool) (*upstream.Response, error) {
		if again {
			lastID = "" // the position belongs to the lost session
		}
		return ex.Listen(ex.Context, ex.Upstream, ex.Session.There, lastID)
	})
	if err != nil {
		return ex.RefuseUpstream(err)
	}
	defer resp.Body.Close()
	ex.Record.UpstreamDialect = resp.Dialect
	if resp.Status == http.StatusMethodNotAllowed {
		return &refusal.NoStream
	}
	return relayAnswer(ex, resp)
}

// End serves DELETE /mcp: it ends the client's session at every upstream that has one.
func End(ex *exchange.Exchange) *refusal.Refusal {
	if refused := ex.OpenControl(); refused != nil {
		return refused
	}
	if ex.Services.Audit.Ready() != nil {
		return &refusal.Audit
	}
	if ex.Session.Several() && ex.Session.Handle.Upstream == "" {
		// The default upstream has no session; only sessions that the gateway opened need to be
		// ended.
		endSessions(ex)
		if err := ex.Account(http.StatusNoContent, 0); err != nil {
			return &refusal.Audit
		}
		ex.Writer.WriteHeader(http.StatusNoContent)
		return nil
	}
	ex.SentUp = ex.Now()
	caller := ex.Session.Caller()
	resp, err := ex.Upstream.Transport.End(ex.Context, &transport.Request{Session: ex.Session.SessionAt(ex.Session.There), Caller: &caller, Header: ex.AppendHeader(nil)})
	if err != nil {
		return ex.RefuseUpstream(err)
	}
	defer resp.Body.Close()
	if ex.Session.Joined && (resp.Status < 300 || resp.Status == http.StatusNotFound) {
		endSessions(ex)
	}
	if resp.Status == http.StatusMethodNotAllowed {
		refused := refusal.NoStream
		refused.Allow = "GET, POST"
		return &refused
	}
	return relayAnswer(ex, resp)
}

// endSessions ends the sessions that the gateway opened for the client's session at other
// upstreams, and its merged stream. The default upstream has received the DELETE.
func endSessions(ex *exchange.Exchange) {
	ex.Services.Sessions.End(ex.Context, ex.Session.Handle.ID, ex.Upstream)
	ex.Services.Merged.End(ex.Session.Handle.ID)
}
