package translate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// Limits of subscriptions.
const (
	maxWatching    = 10_000   // sessions with subscriptions
	maxAllURIBytes = 32 << 20 // of the URIs of all sessions at one upstream
)

// listenID is the id of the gateway's subscriptions/listen.
const listenID = `"svc-listen"`

// watch is the subscriptions of one session of a client.
type watch struct {
	uris     map[string]struct{}
	size     int       // bytes of uris
	listener *listener // its GET stream; nil while none is open
	used     time.Time // when it was last changed
}

// watch returns the subscriptions of a session for modification. Beyond the limit, the
// least recently used session without a stream is removed: clients may disconnect without
// ending their sessions. It is nil if all have a stream. The caller holds t.mu.
func (t *ToModern) watch(id session.ID) *watch {
	now := t.opts.Now()
	if w := t.watching[id]; w != nil {
		w.used = now
		return w
	}
	if len(t.watching) >= maxWatching && !t.forgetOldest(nil) {
		return nil
	}
	w := &watch{uris: map[string]struct{}{}, used: now}
	t.watching[id] = w
	return w
}

// forgetOldest removes the least recently used session without a stream, other than a given
// one; false if all have a stream. The caller holds t.mu.
func (t *ToModern) forgetOldest(but *watch) bool {
	var oldest session.ID
	var last *watch
	for id, w := range t.watching {
		if w != but && w.listener == nil && (last == nil || w.used.Before(last.used)) {
			oldest, last = id, w
		}
	}
	if last != nil {
		t.forgetWatch(oldest)
	}
	return last != nil
}

// forgetWatch removes the subscriptions of a session. The caller holds t.mu.
func (t *ToModern) forgetWatch(id session.ID) {
	if w := t.watching[id]; w != nil {
		t.watchedBytes -= w.size
		delete(t.watching, id)
	}
}

// addURI adds a resource to the subscriptions of a session. If that exceeds a limit it adds
// nothing, and returns the limit. The caller holds t.mu.
func (t *ToModern) addURI(w *watch, uri string) (cause string) {
	if _, ok := w.uris[uri]; ok {
		return ""
	}
	switch {
	case len(w.uris) >= maxURIs:
		return fmt.Sprintf("the session has %d subscriptions already", maxURIs)
	case w.size+len(uri) > maxURIBytes:
		return fmt.Sprintf("the URIs of a session's subscriptions have at most %d bytes", maxURIBytes)
	}
	for t.watchedBytes+len(uri) > maxAllURIBytes {
		if !t.forgetOldest(w) {
			return fmt.Sprintf("the URIs of the subscriptions of all sessions have at most %d bytes", maxAllURIBytes)
		}
	}
	w.uris[strings.Clone(uri)] = struct{}{}
	w.size += len(uri)
	t.watchedBytes += len(uri)
	return ""
}

// removeURI removes a resource from the subscriptions of a session. The caller holds t.mu.
func (t *ToModern) removeURI(w *watch, uri string) {
	if _, ok := w.uris[uri]; ok {
		delete(w.uris, uri)
		w.size -= len(uri)
		t.watchedBytes -= len(uri)
	}
}

// subscribe performs resources/subscribe and resources/unsubscribe.
func (t *ToModern) subscribe(r *upstream.Request, m *mcp.Message) *upstream.Response {
	refuse := func(cause string) *upstream.Response { return t.refuse(r, m, &refusal.Subscription, cause) }
	if r.Caller == nil || !r.Caller.HasSession {
		return refuse("a subscription needs a session")
	}
	if m.URI == "" {
		return refuse("uri is missing")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.watching[r.Caller.Session]
	if m.Method == mcp.MethodResourcesSubscribe {
		if w = t.watch(r.Caller.Session); w == nil {
			return refuse(fmt.Sprintf("%d sessions have subscriptions and a stream already", maxWatching))
		}
		if cause := t.addURI(w, m.URI); cause != "" {
			if len(w.uris) == 0 && w.listener == nil {
				t.forgetWatch(r.Caller.Session)
			}
			return refuse(cause)
		}
	} else if w != nil {
		t.removeURI(w, m.URI)
		if len(w.uris) == 0 && w.listener == nil {
			t.forgetWatch(r.Caller.Session)
		}
	}
	if w != nil && w.listener != nil {
		w.listener.listenAgain()
	}
	return upstream.Message(http.StatusOK, appendResult(nil, m.ID, []byte("{}")))
}

// unwatch removes the subscriptions of a session.
func (t *ToModern) unwatch(id session.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetWatch(id)
}

// listener is the GET stream of a session. It is a [upstream.Source].
type listener struct {
	t       *ToModern
	request upstream.Request
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	answer  *Messages
	changed bool // the subscriptions differ from those of answer
}

// Listen opens the stream of the upstream's messages outside of responses.
func (t *ToModern) Listen(ctx context.Context, r *upstream.Request) (*upstream.Response, error) {
	if !isSession(r.Session.ID) {
		return upstream.Empty(http.StatusNotFound), nil
	}
	l := &listener{t: t, request: *r}
	l.request.Caller, l.request.Header = r.Caller.Clone(), slices.Clone(r.Header)
	l.ctx, l.cancel = context.WithCancel(ctx)
	l.attach()
	resp, err := l.open()
	if err != nil {
		l.Close()
		return nil, err
	}
	if resp.Status != http.StatusOK || resp.MediaType() != EventStream {
		resp.Body.Close()
		l.Close()
		return upstream.Empty(http.StatusMethodNotAllowed), nil
	}
	l.use(resp)
	return upstream.Events(l), nil
}

// attach makes l the stream of its session's subscriptions.
func (l *listener) attach() {
	if who := l.request.Caller; who != nil && who.HasSession {
		l.t.mu.Lock()
		defer l.t.mu.Unlock()
		if w := l.t.watch(who.Session); w != nil {
			w.listener = l
		}
	}
}

// open sends subscriptions/listen.
func (l *listener) open() (*upstream.Response, error) {
	l.mu.Lock()
	l.changed = false
	l.mu.Unlock()
	h, _ := openHello(l.request.Session.ID)
	wanted := []mcp.Member{
		{Name: "toolsListChanged", Value: []byte("true")},
		{Name: "promptsListChanged", Value: []byte("true")},
		{Name: "resourcesListChanged", Value: []byte("true")},
		{Name: "resourceSubscriptions", Value: l.uris()},
	}
	params := objectOf(
		mcp.Member{Name: "_meta", Value: objectOf(h.meta(l.t.opts.Version, nil)...)},
		mcp.Member{Name: "notifications", Value: objectOf(wanted...)})
	out := l.request
	out.Session, out.LastEventID = mcp.Session{Version: mcp.Revision20260728}, ""
	out.Body = append([]byte(`{"jsonrpc":"2.0","id":`+listenID+`,"method":"`+mcp.MethodListen+`","params":`), params...)
	out.Body = append(out.Body, '}')
	out.Header = slices.Clone(l.request.Header)
	out.Header.Set(mcp.HeaderMethod, mcp.MethodListen)
	out.Header.Set("Content-Type", JSON)
	out.Header.Set("Accept", JSON+", "+EventStream)
	return l.t.opts.Direct.Post(l.ctx, &out)
}

// uris returns the subscriptions as a JSON array; nil for none.
func (l *listener) uris() []byte {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if l.request.Caller == nil {
		return nil
	}
	w := l.t.watching[l.request.Caller.Session]
	if w == nil || len(w.uris) == 0 {
		return nil
	}
	out := []byte{'['}
	for uri := range w.uris {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = mcp.AppendString(out, uri)
	}
	return append(out, ']')
}

// listenAgain updates the stream after a change of the subscriptions.
func (l *listener) listenAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = true
	if l.answer != nil {
		l.answer.Close() // unblocks the reader
	}
}

// use sets the response that is read.
func (l *listener) use(resp *upstream.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = NewMessages(resp, nil)
	if l.changed || l.ctx.Err() != nil {
		l.answer.Close()
	}
}

// reopened reports whether the stream ended because the subscriptions changed.
func (l *listener) reopened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed && l.ctx.Err() == nil
}

// Next implements [upstream.Source]. It forwards notifications, without the members of the
// revision without sessions.
func (l *listener) Next(before func()) ([]byte, error) {
	for {
		before()
		m, err := l.answer.Message(l.t.opts.Upstream.Name)
		if err != nil {
			if !l.reopened() {
				return nil, err
			}
			resp, err := l.open()
			if err != nil {
				return nil, err
			}
			l.use(resp)
			continue
		}
		switch {
		case m.Kind == mcp.Response:
			return nil, io.EOF
		case m.Kind != mcp.Notification, m.Method == mcp.NotificationAcknowledged, m.Method == mcp.NotificationTasks:
			continue
		}
		return mcp.Remove(m.Body, m.Spans.Meta, mcp.MetaSubscriptionID), nil
	}
}

// Close implements [upstream.Source].
func (l *listener) Close() error {
	l.cancel()
	if who := l.request.Caller; who != nil {
		l.t.mu.Lock()
		if w := l.t.watching[who.Session]; w != nil && w.listener == l {
			w.listener, w.used = nil, l.t.opts.Now()
			if len(w.uris) == 0 {
				l.t.forgetWatch(who.Session)
			}
		}
		l.t.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answer == nil {
		return nil
	}
	return l.answer.Close()
}
