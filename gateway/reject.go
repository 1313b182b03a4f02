package gateway

import (
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/refusal"
)

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
	client := ex.client()
	if !ex.g.versions.Allows(ex.dialect) {
		client.Version = ""
	}
	where := multiplex.Always(mcp.Session{Version: client.Version})
	if ex.hasHandle {
		where = ex.g.sessions.Existing(client, t)
	}
	ex.g.sessions.Reject(t, multiplex.Rejection{
		RequestID: id, Hops: ex.hops, Caller: client.Caller,
		Body:    mcp.AppendError(nil, ex.msg.ID, code, message, refused.Reason, id),
		Session: where,
	})
}
