package multiplex

import (
	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// Untag finds the upstream of a client's response to a server request, or of a progress notification
// for one, and removes the tag from the message; nil for other messages. If the tag was never
// issued, or not at this view, unknown is the acknowledgment to send: the message is unchanged, is
// checked like any other, but is not forwarded.
func (s *Sessions) Untag(m *mcp.Message, v *auth.View) (up *upstream.Upstream, unknown *refusal.Refusal, err error) {
	at, unknown := m.Spans.ID, &refusal.UnknownResponse
	switch {
	case m.Kind == mcp.Response:
	case m.Method == mcp.NotificationProgress:
		at, unknown = m.Spans.ProgressToken, &refusal.UnknownProgress
	default:
		return nil, nil, nil
	}
	name, value, tagged, ok := session.UntagValue(at.Of(m.Body))
	if !tagged {
		return nil, nil, nil
	}
	if up = s.opts.Upstreams[name]; !ok || up == nil || !v.Has(name) {
		return nil, unknown, nil
	}
	// Replacing one value by another of the same kind cannot fail.
	return up, nil, mcp.Scan(mcp.Splice(nil, m.Body, mcp.Edit{At: at, With: value}), m)
}
