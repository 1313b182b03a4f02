package translate

import (
	"strings"
	"testing"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/session"
)

// Sessions that were never ended do not block subscriptions: beyond the limit the least
// recently used session without a stream is removed.
func TestSubscriptionsOfSessionsThatAreNotEnded(t *testing.T) {
	s := &modern{answer: func(int, *mcp.Message, mcp.Header) string { return `{}` }}
	c := connect(t, s, `{}`)
	now := time.Now()
	c.opts.Now = func() time.Time { now = now.Add(time.Second); return now }
	streaming := session.NewID()
	c.watch(streaming).listener = new(listener)
	first := session.NewID()
	c.watch(first)
	for len(c.watching) < maxWatching {
		c.watch(session.NewID())
	}
	resp := c.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://a"}}`)
	text := make([]byte, 1000)
	n, _ := resp.Body.Read(text)
	if got := string(text[:n]); !strings.Contains(got, `"result":{}`) || c.watching[c.session] == nil || len(c.watching) != maxWatching {
		t.Errorf("%s, %d sessions have subscriptions", got, len(c.watching))
	}
	if c.watching[first] != nil || c.watching[streaming] == nil {
		t.Error("another session was forgotten than the one that was used the longest time ago")
	}
	for _, w := range c.watching {
		w.listener = new(listener)
	}
	if c.watch(session.NewID()) != nil {
		t.Error("a session with a stream was forgotten")
	}
}
