package translate

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

const (
	// openingTime bounds how long a call waits for the standalone stream of its session.
	openingTime = 500 * time.Millisecond
	// noStreamTime is the time before the standalone stream is requested again from an
	// upstream without one.
	noStreamTime = 10 * time.Minute
	// idleReplyTimeout bounds the response to a server request outside of a call.
	idleReplyTimeout = 10 * time.Second
)

// standalone is the standalone stream (GET) of a session of the pool. Servers send
// questions, progress and logs there without naming their call. A session has one call at a
// time, so they belong to that one. Between calls requests are rejected, and everything
// else is dropped. It is safe for concurrent use.
type standalone struct {
	t       *ToLegacy
	request upstream.Request
	ctx     context.Context // canceled when the stream is no longer read, or will soon not be
	cancel  context.CancelFunc
	opened  chan struct{} // closed when the upstream has responded

	mu   sync.Mutex
	to   chan<- *mcp.Message // the running call; nil between calls
	gone <-chan struct{}     // closed when that call has ended
}

// standaloneState is the state of the standalone streams of an upstream.
type standaloneState struct {
	slow  atomic.Bool  // one was not opened within openingTime: calls do not wait for later ones
	until atomic.Int64 // Unix time until which none is opened, because the upstream has none
}

// wantsStandalone reports whether the standalone stream may have messages for the client of
// a call.
func (c *callToLegacy) wantsStandalone() bool {
	return !c.t.opts.Upstream.IsProcess() && (len(c.level) > 0 || c.declares(mcp.MethodElicit) || c.declares(mcp.MethodSample))
}

// listenBeside delivers the messages of the session's standalone stream to the call: if
// there is no stream it opens one, waiting a short time, because a server discards messages
// without a stream. It reports whether there is one.
func (c *callToLegacy) listenBeside() bool {
	t := c.t
	at := c.conn.beside
	if at == nil || at.hasEnded() {
		if t.opts.Now().Unix() < t.standalone.until.Load() {
			c.conn.beside = nil
			return false
		}
		at = &standalone{t: t, request: t.standaloneRequest(&c.request, c.conn.session), opened: make(chan struct{})}
		at.ctx, at.cancel = context.WithCancel(context.WithoutCancel(c.ctx))
		c.conn.beside = at
		go at.run()
	}
	at.waitOpened(c.ctx)
	if at.hasEnded() {
		return false
	}
	beside := make(chan *mcp.Message)
	c.beside = beside
	at.deliverTo(beside, c.ctx.Done())
	return true
}

// waitOpened waits until the upstream has responded, within a limit.
func (s *standalone) waitOpened(ctx context.Context) {
	select {
	case <-s.opened:
		return
	default:
	}
	if s.t.standalone.slow.Load() {
		return
	}
	timer := time.NewTimer(openingTime)
	defer timer.Stop()
	select {
	case <-s.opened:
	case <-timer.C:
		s.t.standalone.slow.Store(true)
	case <-ctx.Done():
	}
}

// hasEnded reports whether the stream is no longer read, or will soon not be.
func (s *standalone) hasEnded() bool { return s.ctx.Err() != nil }

// stopListening ends the standalone stream of a session.
func (c *conn) stopListening() {
	if c.beside != nil {
		c.beside.cancel()
	}
}

// deliverTo sets the running call, which ends when gone is closed; nil for none: the stream stays
// open for the next call.
func (s *standalone) deliverTo(to chan<- *mcp.Message, gone <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to, s.gone = to, gone
}

// run reads the stream until ctx or the stream ends.
func (s *standalone) run() {
	answered := sync.OnceFunc(func() { close(s.opened) })
	defer answered()
	defer s.cancel() // before answered: a call that waits then finds that there is no stream
	resp, err := s.t.opts.Direct.Listen(s.ctx, &s.request)
	if err != nil {
		return
	}
	if resp.Status != http.StatusOK || resp.MediaType() != EventStream {
		resp.Body.Close()
		if resp.Status == http.StatusMethodNotAllowed {
			s.t.standalone.until.Store(s.t.opts.Now().Add(noStreamTime).Unix())
		}
		return
	}
	answered()
	messages := NewMessages(resp, nil)
	defer messages.Close()
	for {
		m, err := messages.Message(s.t.opts.Upstream.Name)
		if err != nil {
			return
		}
		s.deliver(m)
	}
}

// deliver delivers a message to the running call.
func (s *standalone) deliver(m *mcp.Message) {
	if m.Kind == mcp.Request && m.Method == mcp.MethodPing {
		s.reply(m)
		return
	}
	s.mu.Lock()
	to, gone := s.to, s.gone
	s.mu.Unlock()
	if to != nil {
		select {
		case to <- m:
			return
		case <-s.ctx.Done():
			return
		case <-gone:
		}
	}
	if m.Kind == mcp.Request {
		s.reply(m)
	}
}

// reply responds to a request of the upstream outside of a call.
func (s *standalone) reply(m *mcp.Message) {
	ctx, cancel := context.WithTimeout(s.ctx, idleReplyTimeout)
	defer cancel()
	_ = s.t.client(&s.request).Respond(ctx, s.request.Session, nobodyToAsk(m, s.request.RequestID))
}

// nobodyToAsk is the response to a request of an upstream outside of a call.
func nobodyToAsk(m *mcp.Message, requestID string) []byte {
	if m.Method == mcp.MethodPing {
		return appendResult(nil, m.ID, []byte("{}"))
	}
	return mcp.AppendError(nil, m.ID, mcp.CodeMethodNotFound, "the client cannot be asked outside of a call", refusal.Generation.Reason, requestID)
}

// standaloneRequest returns the request that opens the standalone stream of a session, with the
// caller and the header of r.
func (t *ToLegacy) standaloneRequest(r *upstream.Request, at mcp.Session) upstream.Request {
	out := *r
	out.Session, out.Body, out.LastEventID, out.Header = at, nil, "", withoutMirrors(r.Header)
	out.Header.Set("Accept", EventStream)
	out.Timeouts = &upstream.Timeouts{FirstByte: t.opts.Upstream.Timeout}
	return out
}

// posted is the result of a request.
type posted struct {
	resp *upstream.Response
	err  error
}

// read is one message of a response.
type read struct {
	m   *mcp.Message
	err error
}

// postBeside sends the request while the standalone stream is read. If a message for the
// client arrives there before the response, it is returned with a nil response.
func (c *callToLegacy) postBeside(out *upstream.Request) (resp *upstream.Response, early []byte, err error) {
	ctx, sent := c.ctx, make(chan posted, 1)
	go func() {
		resp, err := c.t.opts.Direct.Post(ctx, out)
		sent <- posted{resp, err}
	}()
	for {
		select {
		case p := <-sent:
			return p.resp, nil, p.err
		case m := <-c.beside:
			c.mu.Lock()
			c.sent = sent
			c.mu.Unlock()
			if early = c.fromUpstream(m, true); early != nil {
				return nil, early, nil
			}
			c.mu.Lock()
			c.sent = nil
			c.mu.Unlock()
		}
	}
}

// nextBeside returns the next message of the response or of the standalone stream.
func (c *callToLegacy) nextBeside() (m *mcp.Message, beside bool, err error) {
	for {
		c.mu.Lock()
		sent, answer := c.sent, c.answer
		c.mu.Unlock()
		if sent == nil && c.reading == nil {
			c.reading = readOne(answer, c.t.opts.Upstream.Name)
		}
		select { // do not flush while more messages are ready
		case m := <-c.beside:
			return m, true, nil
		case got := <-c.reading:
			c.reading = nil
			return got.m, false, got.err
		default:
			c.wait()
		}
		select {
		case m := <-c.beside:
			return m, true, nil
		case got := <-c.reading:
			c.reading = nil
			return got.m, false, got.err
		case p := <-sent:
			if err := c.answered(p); err != nil {
				return nil, false, err
			}
		case <-c.ctx.Done():
			return nil, false, c.ctx.Err()
		}
	}
}

// answered takes the response to a request that another message preceded.
func (c *callToLegacy) answered(p posted) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = nil
	switch {
	case p.err != nil:
		return p.err
	case c.state == ended:
		p.resp.Body.Close()
		return context.Canceled
	case p.resp.Status != http.StatusOK || p.resp.MediaType() != EventStream && p.resp.MediaType() != JSON:
		p.resp.Body.Close()
		return &upstream.Error{Upstream: c.t.opts.Upstream.Name, Op: "read", Kind: upstream.ErrInvalidResponse}
	}
	c.answer = NewMessages(p.resp, nil)
	return nil
}

// readOne reads one message of a response. While a question waits for its answer nothing is
// read, so that no goroutine is blocked.
func readOne(answer *Messages, name string) <-chan read {
	out := make(chan read, 1)
	go func() {
		m, err := answer.Message(name)
		out <- read{m, err}
	}()
	return out
}
