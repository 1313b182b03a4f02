package gateway

import (
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/tag"
	"svc/gateway/transport"
)

// tagFor returns the tag of a stream of this exchange: none where the session
// has one upstream.
func (ex *exchange) tagFor(t tag.Kind) tag.Kind {
	if ex.hasHandle && len(ex.g.targets) > 1 {
		return t
	}
	return tag.None
}

// untag finds the upstream of a client's answer to a server request, or of the
// progress of one, and removes the tag. It runs before the rules, so that they
// judge the message that is sent. A tag that was never issued is kept: such a
// message is judged like any other, but goes nowhere (see discard).
func (ex *exchange) untag() *refusal.Refusal {
	ex.untagged = true
	if ex.tagFor(tag.Post) == tag.None {
		return nil
	}
	m := &ex.msg
	at, unknown := m.Spans.ID, &refusal.UnknownResponse
	switch {
	case m.Kind == mcp.Response:
	case m.Method == mcp.NotificationProgress:
		at, unknown = m.Spans.ProgressToken, &refusal.UnknownProgress
	default:
		return nil
	}
	name, value, tagged, ok := tag.UntagValue(at.Of(m.Body))
	if !tagged {
		return nil
	}
	t := ex.g.targets[name]
	if !ok || t == nil {
		ex.unknown = unknown
		return nil
	}
	body := mcp.Splice(nil, m.Body, mcp.Edit{At: at, With: value})
	if err := mcp.Scan(body, m); err != nil { // one value in the place of another: cannot happen
		return refusal.OfMessage(err)
	}
	ex.follows = t
	return nil
}

// discard acknowledges a message that refers to something that was never issued.
// An upstream would ignore it too, like an answer that comes too late.
func (ex *exchange) discard() *refusal.Refusal {
	ex.rec.ErrorKind = ex.unknown.Kind
	if err := ex.account(ex.unknown.Status, 0); err != nil {
		return &refusal.Audit
	}
	ex.w.WriteHeader(ex.unknown.Status)
	return nil
}

// follow finds the upstream of a client's message that belongs to one before it:
// what untag found, or where the request runs that is canceled. Without a trace of
// the one before it is for the default upstream.
func (ex *exchange) follow() *transport.Upstream {
	if ex.follows == nil && ex.msg.Method == mcp.NotificationCancelled && ex.tagFor(tag.Post) != tag.None {
		return ex.targetOfCall(ex.msg.Spans.RequestID.Of(ex.msg.Body))
	}
	return ex.follows
}
