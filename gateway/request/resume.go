package request

import (
	"net/http"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// ControlStream serves GET /mcp: the standalone event stream on which a server sends messages to a
// legacy client between requests, and on which a client resumes an interrupted stream. The
// request has no method, so no rule applies to it; its frames are judged like all others.
func (ex *Exchange) ControlStream() *refusal.Refusal {
	defer ex.endsAtStop()()
	if refused := ex.openControl(); refused != nil {
		return refused
	}
	if ex.Services.Audit.Ready() != nil {
		return &refusal.Audit
	}
	if !ex.Session.Several() {
		return pass(ex, ex.HTTP.Header.Get(mcp.HeaderLastEventID))
	}
	last := ex.HTTP.Header.Get(mcp.HeaderLastEventID)
	name, id, ok := session.UntagPost(last)
	if !ok {
		return merge(ex, session.UntagStanding(last))
	}
	// The interrupted response to a POST is resumed at the upstream that sent it.
	if ex.route.Upstream, ok = ex.Services.Targets[name]; !ok || !ex.Session.View.Has(name) {
		return &refusal.NoRoute
	}
	if err := ex.Session.Find(ex.Context, ex.route.Upstream); err != nil {
		return ex.refuseUpstream(err)
	}
	return pass(ex, id)
}

// pass opens the stream of one upstream and relays it.
func pass(ex *Exchange, lastID string) *refusal.Refusal {
	ex.times.sentUp = ex.now()
	resp, err := ex.Session.Send(ex.Context, ex.route.Upstream, func(again bool) (*upstream.Response, error) {
		if again {
			lastID = "" // the position belongs to the lost session
		}
		return ex.listen(ex.Context, ex.route.Upstream, ex.Session.There, lastID)
	})
	if err != nil {
		return ex.refuseUpstream(err)
	}
	defer resp.Body.Close()
	ex.record.UpstreamDialect = resp.Dialect
	if resp.Status == http.StatusMethodNotAllowed {
		return &refusal.NoStream
	}
	return relayAnswer(ex, resp)
}
