package request

import (
	"net/http"

	"svc/gateway/refusal"
	"svc/gateway/upstream"
	"svc/gateway/upstream/translate"
)

// EndSession serves DELETE /mcp: it ends the client's session at every upstream that has one.
func (ex *Exchange) EndSession() *refusal.Refusal {
	if refused := ex.openControl(); refused != nil {
		return refused
	}
	if ex.Services.Audit.Ready() != nil {
		return &refusal.Audit
	}
	if ex.Session.Several() && ex.Session.Handle.Upstream == "" {
		// The default upstream has no session; only sessions that the gateway opened need to be
		// ended.
		endSessions(ex)
		if err := ex.account(http.StatusNoContent, 0); err != nil {
			return &refusal.Audit
		}
		ex.Writer.WriteHeader(http.StatusNoContent)
		return nil
	}
	ex.times.sentUp = ex.now()
	caller := ex.Session.Caller()
	resp, err := ex.route.Upstream.Transport.End(ex.Context, &upstream.Request{Session: ex.Session.SessionAt(ex.Session.There), Caller: &caller, Header: ex.appendHeader(nil)})
	if err != nil {
		return ex.refuseUpstream(err)
	}
	defer resp.Body.Close()
	if ex.Session.Joined && (resp.Status < 300 || resp.Status == http.StatusNotFound || translate.SessionLost(resp, ex.Session.There)) {
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
func endSessions(ex *Exchange) {
	ex.Services.Sessions.End(ex.Context, ex.Session.Handle.ID, ex.route.Upstream)
	ex.Services.Merged.End(ex.Session.Handle.ID)
}
