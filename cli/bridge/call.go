package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"svc/gateway/base/retry"
	"svc/gateway/mcp"
)

// errCancelled is the cause of the end of a request that the client canceled.
var errCancelled = errors.New("the client canceled the request")

// call is a request of the client in flight.
type call struct {
	m      *mcp.Message
	modern bool
	opened string // session id in the response to initialize
	cancel context.CancelCauseFunc
	// canceled is set when the client canceled the request; bridge.mu guards it.
	canceled bool
	sent     chan struct{} // closed when the request was written, or has ended
	done     chan struct{} // closed when the request has ended
}

// handle handles one message of the client.
func (b *bridge) handle(line []byte) {
	if line[0] == '[' {
		b.out.write(mcp.AppendError(nil, nil, mcp.CodeInvalidRequest, "send one message a line: batches are not supported", "batch", ""))
		return
	}
	m := new(mcp.Message)
	if err := mcp.Scan(line, m); err != nil {
		var e *mcp.Error
		code, reason := mcp.CodeParseError, ""
		if errors.As(err, &e) {
			code, reason = e.Code, e.Reason
		}
		b.out.write(mcp.AppendError(nil, m.ID, code, err.Error(), reason, ""))
		return
	}
	switch {
	case m.Kind == mcp.Request:
		c := b.start(m)
		if c != nil && m.Method == mcp.MethodInitialize { // later messages belong to the new session
			select {
			case <-c.done:
			case <-b.ctx.Done():
			}
		}
	case m.Method == mcp.NotificationCancelled:
		b.cancelCall(m)
	case m.Method == mcp.NotificationInitialized:
		done := make(chan struct{})
		if b.enqueue(queued{m: m, done: done}) {
			select {
			case <-done:
				b.listen()
			case <-b.ctx.Done():
			}
		}
	default:
		b.enqueue(queued{m: m})
	}
}

// enqueue queues a message for [bridge.sendQueued].
func (b *bridge) enqueue(q queued) bool {
	select {
	case b.queue <- q:
		return true
	case <-b.ctx.Done():
		return false
	}
}

// sendQueued sends notifications and responses of the client in their order.
func (b *bridge) sendQueued() {
	for q := range b.queue {
		if q.after != nil {
			select {
			case <-q.after:
			case <-b.ctx.Done():
			}
		}
		if err := b.notify(b.ctx, q.m); err != nil && b.ctx.Err() == nil {
			b.logf("%s was not delivered: %v", describe(q.m), err)
		}
		if q.done != nil {
			close(q.done)
		}
	}
}

func describe(m *mcp.Message) string {
	if m.Kind == mcp.Response {
		return "the response to a request of the server"
	}
	return m.Method
}

// start registers a request; it returns nil when the request is refused.
func (b *bridge) start(m *mcp.Message) *call {
	ctx, cancel := context.WithCancelCause(b.ctx)
	c := &call{m: m, modern: mcp.Modern(m.ProtocolVersion), cancel: cancel, sent: make(chan struct{}), done: make(chan struct{})}
	id := string(m.ID)
	b.mu.Lock()
	problem := ""
	switch {
	case b.calls[id] != nil:
		problem = "a request with this id is still open"
	case len(b.calls) >= maxCalls:
		problem = fmt.Sprintf("%d requests are open", maxCalls)
	default:
		b.calls[id] = c
	}
	if c.modern {
		b.modern = m.ProtocolVersion
	}
	b.mu.Unlock()
	if problem != "" {
		cancel(nil)
		b.out.write(mcp.AppendError(nil, m.ID, mcp.CodeInvalidRequest, problem, "", ""))
		return nil
	}
	wrote := sync.OnceFunc(func() { close(c.sent) })
	b.wg.Go(func() {
		defer close(c.done)
		defer func() {
			b.mu.Lock()
			delete(b.calls, id)
			b.mu.Unlock()
			wrote()
			cancel(nil)
		}()
		err := b.perform(ctx, c, wrote)
		if err == nil || context.Cause(ctx) == errCancelled || b.ctx.Err() != nil {
			return // answered already, or canceled
		}
		b.out.write(mcp.AppendError(nil, m.ID, mcp.CodeInternal, "the gateway did not respond: "+err.Error(), "gateway_unreachable", ""))
	})
	return c
}

// perform sends a request and writes the response.
func (b *bridge) perform(ctx context.Context, c *call, wrote func()) error {
	switch {
	case c.m.Method == mcp.MethodInitialize && !c.modern:
		return b.initialize(ctx, c, wrote)
	case c.m.Method == mcp.MethodListen:
		return b.subscribe(ctx, c, wrote)
	}
	resp, err := b.exchange(ctx, c.m, wrote)
	if err != nil {
		return err
	}
	return b.deliver(ctx, c, resp)
}

// exchange posts a request. It posts it once more, with a new session or other header
// fields, when the response demands that; the endpoint has not performed the first
// request then.
func (b *bridge) exchange(ctx context.Context, m *mcp.Message, wrote func()) (*http.Response, error) {
	for reopened, learned := false, false; ; {
		s := b.session.current()
		resp, err := b.do(ctx, b.post(m, s, wrote))
		if err != nil {
			return nil, err
		}
		r := refusalOf(resp)
		switch {
		case r == nil:
			return resp, nil
		case r.lostSession(s) && !reopened && !mcp.Modern(m.ProtocolVersion):
			reopened = true
			if err := b.reopen(ctx, s); err != nil {
				return nil, err
			}
		case r.code == mcp.CodeHeaderMismatch && !learned && m.Method == mcp.MethodToolsCall && mcp.Modern(m.ProtocolVersion):
			learned = true
			if !b.learn(ctx, m) {
				return r.response(resp), nil
			}
		default:
			return r.response(resp), nil
		}
	}
}

// post returns the HTTP request for a message.
func (b *bridge) post(m *mcp.Message, s mcp.Session, sent func()) *outgoing {
	o := &outgoing{method: http.MethodPost, body: m.Body, sent: sent, header: http.Header{}}
	b.mu.Lock()
	declared := b.modern
	b.mu.Unlock()
	version := m.ProtocolVersion
	if version == "" && m.Kind != mcp.Request && s.Version == "" {
		version = declared // notifications need no such header fields
	}
	switch {
	case mcp.Modern(version):
		o.session = mcp.Session{Version: version}
		o.header[mcp.HeaderMethod] = []string{m.Method}
		if name, ok := m.MirroredName(); ok && name != "" {
			o.header[mcp.HeaderName] = []string{mcp.EncodeHeader(name)}
		}
		b.addParams(o.header, m)
	case m.Method != mcp.MethodInitialize:
		o.session = s
	}
	return o
}

// notify posts a message that has no response.
func (b *bridge) notify(ctx context.Context, m *mcp.Message) error {
	s := b.session.current()
	resp, err := b.do(ctx, b.post(m, s, nil))
	if err != nil {
		return err
	}
	defer discard(resp)
	if resp.StatusCode/100 == 2 {
		return nil
	}
	r := refusalOf(resp)
	return errors.New(r.text())
}

// cancelCall cancels a request by the rules of its generation: with a notification,
// or since 2026-07-28 by closing the stream of the response.
func (b *bridge) cancelCall(m *mcp.Message) {
	b.mu.Lock()
	c := b.calls[string(m.Spans.RequestID.Of(m.Body))]
	if c != nil {
		c.canceled = true
	}
	b.mu.Unlock()
	switch {
	case c == nil:
		b.enqueue(queued{m: m}) // perhaps a task; the server decides
	case c.modern:
		c.cancel(errCancelled)
	default:
		b.enqueue(queued{m: m, after: c.sent})
		b.wg.Go(func() { // servers do not respond to canceled requests
			if retry.Wait(b.ctx, cancelGrace) {
				c.cancel(errCancelled)
			}
		})
	}
}
