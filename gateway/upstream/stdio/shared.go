package stdio

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// answerShared responds to requests that concern one of several clients of a process, not
// the process; nil for a request that is sent to the process.
func (t *Transport) answerShared(s *session, m *mcp.Message) []byte {
	if s == nil {
		return nil
	}
	if s.slot != nil {
		if m.Method == mcp.MethodSetLevel {
			params := bytes.Clone(m.Spans.Params.Of(m.Body))
			s.level.Store(&params)
		}
		return nil
	}
	switch m.Method {
	case mcp.MethodSetLevel: // its log messages go to the gateway's log
		return result(m.ID, "{}")
	case mcp.MethodResourcesSubscribe:
		if !s.uris.add(m.URI) {
			return rejection(m.ID, mcp.CodeInternal, "too many subscriptions in one session")
		}
	case mcp.MethodResourcesUnsubscribe:
		s.uris.remove(m.URI)
		if t.subscribed(s, m.URI) {
			return result(m.ID, "{}") // other sessions of the process are still subscribed
		}
	}
	return nil
}

// subscribed reports whether another session of the same process is subscribed to a
// resource.
func (t *Transport) subscribed(except *session, uri string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if except.uses == nil {
		return false
	}
	for s := range except.uses.users {
		if s != except && s.uris.has(uri) {
			return true
		}
	}
	return false
}

// pass forwards a client's notification or response, without waiting.
func (t *Transport) pass(ctx context.Context, s *session, sl *slot, m *mcp.Message) {
	if m.Kind == mcp.Response {
		t.respond(ctx, sl, m)
	} else {
		t.notify(ctx, s, sl, m)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropUnused(sl)
}

// notify forwards a client's notification to the running process. It does not start one.
func (t *Transport) notify(ctx context.Context, s *session, sl *slot, m *mcp.Message) {
	own := s != nil && s.slot != nil
	if m.Method == mcp.NotificationInitialized && s != nil {
		if !own || s.initialized.Swap(true) {
			return
		}
	}
	t.mu.Lock()
	p := sl.proc
	t.mu.Unlock()
	if p == nil {
		return
	}
	body := m.Body
	switch m.Method {
	case mcp.NotificationCancelled:
		if body = p.cancellation(s, m); body == nil {
			return
		}
	case mcp.NotificationRootsChanged, mcp.NotificationProgress:
		if !own {
			return
		}
	}
	_ = p.write(ctx, body)
}

// cancellation returns the cancellation of a session's call for the program; nil if the
// call has ended.
func (p *process) cancellation(s *session, m *mcp.Message) []byte {
	id := m.Spans.RequestID.Of(m.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if s != nil && c.session == s && mcp.SameID(c.id, id) {
			return mcp.Splice(nil, m.Body, mcp.Edit{At: m.Spans.RequestID, With: number(c)})
		}
	}
	return nil
}

// respond forwards a client's response to the process that sent the request. Other
// responses are dropped.
func (t *Transport) respond(ctx context.Context, sl *slot, m *mcp.Message) {
	t.mu.Lock()
	p := sl.proc
	t.mu.Unlock()
	if p == nil || sl.session == nil {
		return
	}
	p.mu.Lock()
	_, asked := p.asked[string(m.ID)]
	delete(p.asked, string(m.ID))
	p.mu.Unlock()
	if asked {
		_ = p.write(ctx, m.Body)
	}
}

// passShared forwards a notification of a process to the clients that it concerns.
func (p *process) passShared(m *mcp.Message) {
	t := p.t
	switch m.Method {
	case mcp.NotificationMessage:
		t.notes.message(p, m.Spans.Params.Of(m.Body))
	case mcp.NotificationResourceUpdated:
		p.toUsers(bytes.Clone(m.Body), func(s *session) bool { return s.uris.has(m.URI) })
	case mcp.NotificationToolsChanged, mcp.NotificationResourcesChanged, mcp.NotificationPromptsChanged:
		// No client has a stream for lists that the gateway itself reads.
		if owner := p.slot.owner; t.opts.Changed != nil && (owner == ownerGateway || owner == ownerAll) {
			t.opts.Changed()
		}
		p.changes.add(m)
	}
}

// toUsers adds a notification to the streams of the sessions that use the process; of all sessions
// if concerns is nil.
func (p *process) toUsers(body []byte, concerns func(*session) bool) {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	for s := range p.slot.users {
		if concerns == nil || concerns(s) {
			s.sessionStream.push(body)
		}
	}
}

// maxSubscriptions bounds the resources that a session subscribes to.
const maxSubscriptions = 1024

// subscriptions is the set of resources that a session is subscribed to.
type subscriptions struct {
	mu   sync.Mutex
	uris map[string]struct{}
}

func (s *subscriptions) add(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uris == nil {
		s.uris = map[string]struct{}{}
	}
	if _, there := s.uris[uri]; !there && len(s.uris) >= maxSubscriptions {
		return false
	}
	s.uris[string(bytes.Clone([]byte(uri)))] = struct{}{}
	return true
}

func (s *subscriptions) remove(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uris, uri)
}

func (s *subscriptions) has(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.uris[uri]
	return there
}

// generations records whether the program lacks server/discover, and the running request.
type generations struct {
	legacy atomic.Bool
	mu     sync.Mutex
	asking *question // nil for none
}

// question is a running server/discover. done is closed when it has ended; answer and err
// are set before.
type question struct {
	done   chan struct{}
	answer []byte // nil for a program of the legacy generation
	err    error
}

// discoverPatience is the time for a program's response to server/discover before it is
// sent initialize as well: legacy programs may respond to no other request before
// initialize.
const discoverPatience = 5 * time.Second

// discover asks the program for its revisions. A program that responds with an error, or
// only to initialize, is a legacy one, and no process is started to ask again. If it
// responds to neither within start_timeout, the result stays open: the program may be
// downloading itself. The request continues when its caller disconnects, and concurrent
// callers share it.
func (t *Transport) discover(ctx context.Context, sl *slot, m *mcp.Message) (*upstream.Response, error) {
	if t.generation.legacy.Load() {
		return unknownMethod(m), nil
	}
	body := bytes.Clone(m.Body) // the shared request may outlast this one
	q := t.generation.begin(func(q *question) { t.ask(sl, body, q) })
	select {
	case <-q.done:
	case <-ctx.Done():
		return nil, t.failContext(ctx, opRead, true)
	}
	switch {
	case q.err != nil:
		return nil, q.err
	case q.answer == nil:
		return unknownMethod(m), nil
	}
	return message(withID(q.answer, m.ID), ""), nil
}

func unknownMethod(m *mcp.Message) *upstream.Response {
	return message(rejection(m.ID, mcp.CodeMethodNotFound, "the program does not know server/discover"), "")
}

// begin returns the running request, or starts one.
func (g *generations) begin(ask func(*question)) *question {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asking != nil {
		return g.asking
	}
	q := &question{done: make(chan struct{})}
	g.asking = q
	go func() {
		ask(q)
		g.mu.Lock()
		g.asking = nil
		g.mu.Unlock()
		close(q.done)
	}()
	return q
}

// ask asks one process.
func (t *Transport) ask(sl *slot, body []byte, q *question) {
	var m, reply mcp.Message
	if q.err = mcp.Scan(body, &m); q.err != nil {
		return
	}
	p, err := t.acquire(context.Background(), sl)
	if err != nil {
		q.err = err
		return
	}
	defer t.release(p)
	ctx, cancel := context.WithTimeout(context.Background(), t.config.StartTimeout)
	defer cancel()
	answer, opened, err := p.whichAnswers(ctx, &m, t.neutralParams(mcp.Revision20251125))
	modern := err == nil && answer != nil && mcp.Scan(answer, &reply) == nil && !reply.IsError
	switch {
	case err != nil:
		q.err = err
	case modern:
		q.answer = answer
	default:
		t.generation.legacy.Store(true)
	}
	if opened || !modern {
		t.mu.Lock()
		p.slot.single = true // the process may be in a session: do not use it again
		t.mu.Unlock()
	}
}

// whichAnswers sends a request of 2026-07-28 and, if there is no response in time,
// initialize with params. It returns the response to the request, nil if the program has
// only responded to initialize, and whether initialize was sent.
func (p *process) whichAnswers(ctx context.Context, m *mcp.Message, params []byte) (answer []byte, opened bool, err error) {
	type result struct {
		body []byte
		err  error
	}
	send := func(m *mcp.Message) (<-chan result, error) {
		c, err := p.ask(ctx, &call{own: true}, m)
		if err != nil {
			return nil, err
		}
		got := make(chan result, 1)
		go func() {
			body, err := c.answer(ctx)
			got <- result{body, err}
		}()
		return got, nil
	}
	discover, err := send(m)
	if err != nil {
		return nil, false, err
	}
	timer := time.NewTimer(p.t.patience)
	defer timer.Stop()
	select {
	case r := <-discover:
		return r.body, false, r.err
	case <-timer.C:
	}
	var open, reply mcp.Message
	if err := mcp.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":%q,"params":%s}`, mcp.MethodInitialize, params), &open); err != nil {
		return nil, false, err
	}
	initialize, err := send(&open)
	if err != nil {
		return nil, true, err
	}
	select {
	case r := <-discover:
		return r.body, true, r.err
	case r := <-initialize:
		if r.err != nil {
			return nil, true, r.err
		}
		if mcp.Scan(r.body, &reply) == nil && !reply.IsError {
			return nil, true, nil
		}
	}
	// A program of 2026-07-28 may reject initialize before it responds to the request.
	r := <-discover
	return r.body, true, r.err
}
