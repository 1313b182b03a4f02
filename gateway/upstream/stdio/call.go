package stdio

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Limits of the messages that wait to be read in a response.
const (
	maxQueued      = 1024
	maxQueuedBytes = 8 << 20
)

// maxRoom bounds the bytes that wait to be read, for all processes of an upstream.
const maxRoom = 128 << 20

// room counts these bytes.
type room struct{ used atomic.Int64 }

// take reserves n bytes, and reports whether the limit permits it.
func (r *room) take(n int) bool {
	if r.used.Add(int64(n)) > maxRoom {
		r.used.Add(-int64(n))
		return false
	}
	return true
}

func (r *room) give(n int) { r.used.Add(-int64(n)) }

// call is a request that waits for its response.
type call struct {
	p       *process
	session *session // nil for a request without a session
	own     bool     // a request of the gateway itself
	number  uint64
	id      []byte // of the client's request, as written
	token   []byte // its progress token; empty for none
	wake    chan struct{}
	closed  chan struct{} // closed when the response is closed

	mu       sync.Mutex
	queued   [][]byte // messages before the response
	bytes    int
	done     []byte // the response
	answered bool
	left     bool // the reader has closed the response
	err      error
}

// request returns the text of the request for the program.
func (c *call) request(m *mcp.Message) []byte {
	number := strconv.AppendUint(nil, c.number, 10)
	id, token := mcp.Edit{At: m.Spans.ID, With: number}, mcp.Edit{At: m.Spans.ProgressToken, With: number}
	if token.At.Present() && token.At.Start < id.At.Start {
		id, token = token, id
	}
	return mcp.Splice(nil, m.Body, id, token)
}

// push adds a message that precedes the response. It returns false when the limit is
// exceeded, because the client reads too slowly.
func (c *call) push(body []byte) bool {
	c.mu.Lock()
	ok := !c.answered && !c.left && len(c.queued) < maxQueued && c.bytes+len(body) <= maxQueuedBytes && c.p.t.room.take(len(body))
	if ok {
		c.queued = append(c.queued, body)
		c.bytes += len(body)
	}
	c.mu.Unlock()
	c.notify()
	return ok
}

// finish sets the response.
func (c *call) finish(body []byte) {
	c.mu.Lock()
	switch {
	case c.left:
	case c.p.t.room.take(len(body)):
		c.done, c.answered = body, true
	default:
		c.err = c.p.t.fail(opRead, upstream.ErrBusy, true, errors.New("unread responses of other calls use up the memory limit"))
	}
	c.mu.Unlock()
	c.notify()
}

// leave discards unread messages.
func (c *call) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left {
		c.left = true
		c.p.t.room.give(c.bytes + len(c.done))
		c.queued, c.bytes, c.done = nil, 0, nil
	}
}

func (c *call) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take returns the next message; nil when none has arrived. last is set for the
// response.
func (c *call) take() (body []byte, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queued) > 0 {
		body, c.queued = c.queued[0], c.queued[1:]
		c.bytes -= len(body)
		c.p.t.room.give(len(body))
		return body, false
	}
	body, c.done = c.done, nil
	c.p.t.room.give(len(body))
	return body, c.answered
}

// failed returns the reason why the response is missing.
func (c *call) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// wait returns the next message, waiting at most limit; 0 is no limit.
func (c *call) wait(ctx context.Context, limit time.Duration) (body []byte, last bool, err error) {
	if body, last = c.take(); body != nil {
		return body, last, nil
	}
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	over := c.p.closed
	for {
		select {
		case <-c.wake:
		case <-over:
			if body, last = c.take(); body == nil {
				return nil, false, c.p.exitError(opRead, true)
			}
			return body, last, nil
		case <-ctx.Done():
			return nil, false, c.p.t.failContext(ctx, opRead, true)
		case <-c.closed:
			return nil, false, errBodyClosed
		case <-late:
			return nil, false, c.p.t.fail(opRead, upstream.ErrTimeout, true, nil)
		}
		if body, last = c.take(); body != nil {
			return body, last, nil
		}
		if err = c.failed(); err != nil {
			return nil, false, err
		}
	}
}

// answer waits for the response and ignores the messages before it.
func (c *call) answer(ctx context.Context) ([]byte, error) {
	for {
		body, last, err := c.wait(ctx, 0)
		if err != nil {
			c.p.forget(c)
			c.leave()
			return nil, err
		}
		if last {
			return body, nil
		}
	}
}

// respond returns the response as soon as its first message has arrived.
func (c *call) respond(ctx context.Context, limits upstream.Timeouts) (*upstream.Response, error) {
	body, last, err := c.wait(ctx, limits.FirstByte)
	if err != nil {
		c.abandon()
		return nil, err
	}
	if last {
		c.p.t.release(c.p)
		if limit := c.p.t.opts.Config.MaxResponseBytes; int64(len(body)) > limit {
			return nil, c.p.t.fail(opRead, upstream.ErrTooLarge, true, nil)
		}
		return message(body, ""), nil
	}
	return upstream.Events(&callStream{call: c, ctx: ctx, between: limits.Between, first: body}), nil
}

// abandon ends a call whose caller no longer waits, and cancels it at the program.
func (c *call) abandon() {
	p := c.p
	c.leave()
	p.mu.Lock()
	_, pending := p.calls[c.number]
	p.mu.Unlock()
	if !pending {
		p.t.release(p)
		return
	}
	// The call counts as pending until the cancellation is written, so that pending
	// writes are bounded.
	go func() {
		defer p.t.release(p)
		defer p.forget(c)
		ctx, cancel := context.WithTimeout(context.Background(), cancelPatience)
		defer cancel()
		text := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), strconv.FormatUint(c.number, 10)...)
		_ = p.write(ctx, append(text, `,"reason":"the client no longer waits"}}`...))
	}()
}

// cancelPatience bounds the wait for other writers before a cancellation is written.
const cancelPatience = 5 * time.Second

// errBodyClosed is the error of a read after Close.
var errBodyClosed = errors.New("the body was closed")

// callStream is the messages of a streamed response, which ends after the response message. It is
// a [upstream.Source].
type callStream struct {
	call    *call
	ctx     context.Context
	between time.Duration
	first   []byte // a message that has arrived
	last    bool
}

// Next implements [upstream.Source].
func (s *callStream) Next(before func()) (body []byte, err error) {
	if s.last {
		return nil, io.EOF
	}
	if body, s.first = s.first, nil; body != nil {
		return body, nil
	}
	if body, s.last = s.call.take(); body == nil {
		before()
		body, s.last, err = s.call.wait(s.ctx, s.between)
	}
	return body, err
}

// Close implements [upstream.Source]. If the response message has not arrived, the call is
// canceled.
func (s *callStream) Close() error {
	close(s.call.closed)
	s.call.abandon()
	return nil
}

// number is the number of a call as the program receives it.
func number(c *call) []byte { return strconv.AppendUint(nil, c.number, 10) }
