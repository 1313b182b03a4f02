package translate

import (
	"errors"

	"svc/gateway/mcp"
)

// renew opens another session to replace one that the upstream has lost, and subscribes
// there. The client is notified that everything may have changed, because notifications
// in between were lost. If the upstream no longer has sessions, the subscription ends:
// the next one is not translated.
func (l *subscription) renew() {
	c, err := l.t.open(l.ctx, &l.request, &l.sender)
	switch {
	case errors.Is(err, ErrNotLegacy):
		result := mcp.AppendObject(nil, nil, mcp.Span{}, nil,
			mcp.Member{Name: "resultType", Value: []byte(`"` + mcp.ResultComplete + `"`)},
			mcp.Member{Name: "_meta", Value: l.meta(nil, mcp.Span{})})
		l.queue, l.over = append(l.queue, appendResult(nil, l.id, result)), true
		return
	case err != nil || !l.replace(c):
		return
	}
	l.uris = l.subscribe(l.uris)
	l.open()
	for _, method := range l.methods {
		if method != mcp.NotificationResourceUpdated {
			l.notify(method)
		}
	}
	for _, uri := range l.uris {
		l.notify(mcp.NotificationResourceUpdated, mcp.Member{Name: "uri", Value: uri})
	}
}

// replace makes c the session of the subscription; false when the client has
// disconnected, which ends c.
func (l *subscription) replace(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.t.discard(c)
		return false
	}
	l.conn, l.streamed = c, false
	return true
}
