package translate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"svc/gateway/base/retry"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// Limits of subscriptions/listen.
const (
	maxListening = 64 // subscriptions of one principal
	minReopening = time.Second
	maxReopening = 30 * time.Second
)

// subscription is the response to one subscriptions/listen: a session of its own, and its
// GET stream. It is a [upstream.Source].
type subscription struct {
	t *ToLegacy
	sender
	conn    *conn
	request upstream.Request
	id      []byte
	ctx     context.Context
	cancel  context.CancelFunc

	queue   [][]byte // messages for the client that precede those of the upstream
	methods []string
	uris    [][]byte // subscribed resources, as written
	pause   time.Duration
	// streamed is set once the session had a GET stream: a server without one may respond
	// as if it did not know the session.
	streamed bool
	over     bool // the response to subscriptions/listen is the last of queue, or was returned

	mu     sync.Mutex
	answer *Messages // nil while there is no stream
	closed bool
}

// listen responds to subscriptions/listen.
func (t *ToLegacy) listen(ctx context.Context, r *upstream.Request, m *mcp.Message, s *sender) (*upstream.Response, error) {
	uris, cause := wanted(m)
	if cause == "" && !t.listening.Take(s.principal, 1) {
		cause = fmt.Sprintf("at most %d subscriptions/listen of a caller, and %d of all callers, are open at an upstream", maxListening, maxApart)
	}
	if cause != "" {
		return Refuse(&refusal.Subscription, 0, m.ID, cause, r.RequestID), nil
	}
	c, err := t.acquire(ctx, r, s, false)
	if err != nil {
		t.listening.Give(s.principal, 1)
		return nil, err
	}
	if !t.pool.setApart(s.principal) { // it is long-lived and not a call
		t.listening.Give(s.principal, 1)
		t.giveBack(c, s)
		return nil, &upstream.Error{Upstream: t.opts.Upstream.Name, Op: "session", Kind: upstream.ErrBusy}
	}
	l := &subscription{t: t, sender: *s, conn: c, request: *r, id: slices.Clone(m.ID), pause: minReopening}
	l.request.Caller, l.request.Header, l.request.Body = r.Caller.Clone(), withoutMirrors(r.Header), nil
	l.info, l.declared, l.level = slices.Clone(l.info), slices.Clone(l.declared), nil
	l.ctx, l.cancel = context.WithCancel(ctx)
	l.agree(m, uris)
	return upstream.Events(l), nil
}

// agree returns the acknowledgment: the part of the client's request that the upstream
// offers. It subscribes to the resources.
func (l *subscription) agree(m *mcp.Message, uris [][]byte) {
	asked := mcp.Find(m.Body, m.Spans.Params, "notifications")
	capabilities := mcp.Find(l.conn.opened.Body, l.conn.opened.Spans.Result, "capabilities")
	var agreed []mcp.Member
	for _, kind := range []struct{ flag, capability, method string }{
		{"toolsListChanged", "tools", mcp.NotificationToolsChanged},
		{"promptsListChanged", "prompts", mcp.NotificationPromptsChanged},
		{"resourcesListChanged", "resources", mcp.NotificationResourcesChanged},
	} {
		offered := mcp.Find(l.conn.opened.Body, mcp.Find(l.conn.opened.Body, capabilities, kind.capability), "listChanged")
		if string(mcp.Find(m.Body, asked, kind.flag).Of(m.Body)) == "true" && string(offered.Of(l.conn.opened.Body)) == "true" {
			agreed = append(agreed, mcp.Member{Name: kind.flag, Value: []byte("true")})
			l.methods = append(l.methods, kind.method)
		}
	}
	if l.uris = l.subscribe(uris); len(l.uris) > 0 {
		list := append(append([]byte{'['}, bytes.Join(l.uris, []byte{','})...), ']')
		agreed = append(agreed, mcp.Member{Name: "resourceSubscriptions", Value: list})
		l.methods = append(l.methods, mcp.NotificationResourceUpdated)
	}
	l.notify(mcp.NotificationAcknowledged, mcp.Member{Name: "notifications", Value: objectOf(agreed...)})
}

// notify queues a notification of the gateway.
func (l *subscription) notify(method string, members ...mcp.Member) {
	members = append(members, mcp.Member{Name: "_meta", Value: l.meta(nil, mcp.Span{})})
	text := append([]byte(`{"jsonrpc":"2.0","method":"`+method+`","params":`), objectOf(members...)...)
	l.queue = append(l.queue, append(text, '}'))
}

// meta is the _meta of a notification of this subscription.
func (l *subscription) meta(body []byte, at mcp.Span) []byte {
	return mcp.AppendObject(nil, body, at, nil, mcp.Member{Name: mcp.MetaSubscriptionID, Value: l.id})
}

// wanted returns the resources that a client wants to subscribe to, as written. For a list
// beyond the limits it returns the cause.
func wanted(m *mcp.Message) (uris [][]byte, cause string) {
	list := mcp.Find(m.Body, mcp.Find(m.Body, m.Spans.Params, "notifications"), "resourceSubscriptions")
	if !list.Present() || m.Body[list.Start] != '[' {
		return nil, ""
	}
	size := 0
	for it := mcp.Elements(m.Body, list); it.Next(); {
		uri := it.Value().Of(m.Body)
		if uri[0] != '"' {
			continue
		}
		if size += len(uri); len(uris) == maxURIs || size > maxURIBytes {
			return nil, fmt.Sprintf("resourceSubscriptions has more than %d URIs or %d bytes", maxURIs, maxURIBytes)
		}
		uris = append(uris, slices.Clone(uri))
	}
	return uris, ""
}

// subscribe subscribes to resources, and returns those that the upstream accepted.
func (l *subscription) subscribe(uris [][]byte) (accepted [][]byte) {
	client := l.t.client(&l.request)
	for _, uri := range uris {
		params := objectOf(mcp.Member{Name: "uri", Value: uri})
		if _, err := client.Call(l.ctx, l.conn.session, mcp.MethodResourcesSubscribe, params, maxOpening); err == nil {
			accepted = append(accepted, uri)
		}
	}
	return accepted
}

// Next implements [upstream.Source]. It continues until the client disconnects: a stream that
// the upstream ends is opened again.
func (l *subscription) Next(before func()) ([]byte, error) {
	for {
		if len(l.queue) > 0 {
			out := l.queue[0]
			l.queue = l.queue[1:]
			return out, nil
		}
		if l.over {
			return nil, io.EOF
		}
		before()
		if l.ctx.Err() != nil {
			return nil, l.ctx.Err()
		}
		if l.answer == nil {
			l.open()
			continue
		}
		m, err := l.answer.Message(l.t.opts.Upstream.Name)
		if err != nil {
			l.use(nil)
			l.rest()
			continue
		}
		l.pause = minReopening
		switch {
		case m.Kind == mcp.Request:
			_ = l.t.client(&l.request).Respond(l.ctx, l.conn.session, nobodyToAsk(m, l.request.RequestID))
		case m.Kind == mcp.Notification && slices.Contains(l.methods, m.Method):
			params := mcp.AppendObject(nil, m.Body, m.Spans.Params, nil, mcp.Member{Name: "_meta", Value: l.meta(m.Body, m.Spans.Meta)})
			return mcp.AppendObject(nil, m.Body, mcp.Span{End: len(m.Body)}, nil, mcp.Member{Name: "params", Value: params}), nil
		}
	}
}

// open opens the GET stream of the session. If the upstream has none, the subscription
// waits for its end without messages.
func (l *subscription) open() {
	out := l.t.standaloneRequest(&l.request, l.conn.session)
	resp, err := l.t.opts.Direct.Listen(l.ctx, &out)
	switch {
	case err != nil:
		l.rest()
	case resp.Status == http.StatusOK && resp.MediaType() == EventStream:
		l.use(resp)
	case l.streamed && SessionLost(resp, l.conn.session):
		resp.Body.Close()
		l.rest()
		l.renew()
	default:
		resp.Body.Close()
		if resp.Status == http.StatusMethodNotAllowed {
			l.pause = maxReopening
		}
		l.rest()
	}
}

// use sets the response that is read; nil for none.
func (l *subscription) use(resp *upstream.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer != nil {
		l.answer.Close()
		l.answer = nil
	}
	if resp == nil {
		return
	}
	if l.closed {
		resp.Body.Close()
		return
	}
	l.answer, l.streamed = NewMessages(resp, nil), true
}

// rest waits before the stream is opened again.
func (l *subscription) rest() {
	retry.Wait(l.ctx, l.pause)
	l.pause = min(2*l.pause, maxReopening)
}

// Close implements [upstream.Source].
func (l *subscription) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.cancel()
	if l.answer != nil {
		l.answer.Close()
	}
	l.t.pool.drop(l.principal, false)
	l.t.listening.Give(l.principal, 1)
	l.t.discard(l.conn)
	return nil
}

// renew opens another session to replace one that the upstream has lost, and subscribes
// there. The client is notified that everything may have changed, because notifications
// in between were lost. If the upstream no longer has sessions, the subscription ends:
// the next one is not translated.
func (l *subscription) renew() {
	c, err := l.t.open(l.ctx, &l.request, &l.sender)
	switch {
	case errors.Is(err, ErrNotLegacy):
		result := objectOf(
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
