package translate

import (
	"cmp"
	"errors"
	"io"
	"net/http"

	"svc/gateway/base/retry"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// turn is the part of the call that responds to one request of the client. It is a
// [upstream.Source].
type turn struct {
	*callToLegacy
	number int
	first  []byte // a message that was already read; nil for none
}

// turn returns the response to the client's current request. first is a message that was already
// read; nil for none.
func (c *callToLegacy) turn(first []byte) *turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &turn{callToLegacy: c, number: c.turns, first: first}
}

// mine reports whether the call is running, with this request of the client.
func (t *turn) mine() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == running && t.turns == t.number
}

// Close implements [upstream.Source]. If the client disconnects before the response, the call is
// canceled.
func (t *turn) Close() error {
	if t.mine() {
		t.finish(cancelled)
	}
	return nil
}

// OnRefused is [upstream.Response.OnRefused]. A held call is not affected: it belongs to the
// retry that takes it.
func (t *turn) OnRefused(f func(*upstream.Refused)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != waiting && t.turns == t.number {
		t.refused.OnRefused(f)
	}
}

// wait is called before a read of the upstream blocks.
func (c *callToLegacy) wait() {
	if c.before != nil {
		c.before()
	}
}

// waiter returns the function that is called before a read of the response blocks: nil if
// another goroutine reads.
func (c *callToLegacy) waiter() func() {
	if c.beside != nil {
		return nil
	}
	return c.wait
}

// Next implements [upstream.Source].
func (c *turn) Next(before func()) ([]byte, error) {
	if first := c.first; first != nil {
		c.first = nil
		return first, nil
	}
	for {
		if !c.mine() {
			return nil, io.EOF
		}
		c.before = before
		m, beside, err := c.next()
		if err == io.EOF && c.resume() {
			continue
		}
		if err != nil {
			return c.broken(err)
		}
		if out := c.fromUpstream(m, beside); out != nil {
			return out, nil
		}
	}
}

// next returns the next message of the upstream, and whether it came on the standalone stream.
func (c *callToLegacy) next() (m *mcp.Message, beside bool, err error) {
	if c.beside != nil {
		return c.nextBeside()
	}
	m, err = c.answer.Message(c.t.opts.Upstream.Name)
	return m, false, err
}

// fromUpstream returns the client's form of a message; nil for none.
func (c *callToLegacy) fromUpstream(m *mcp.Message, beside bool) []byte {
	switch m.Kind {
	case mcp.Notification:
		if m.Method == mcp.NotificationProgress || m.Method == mcp.NotificationMessage && len(c.level) > 0 {
			return m.Body
		}
	case mcp.Request:
		return c.asked(m, beside)
	case mcp.Response:
		if beside || len(m.ID) > 0 && !mcp.SameID(m.ID, c.sentID) {
			return nil
		}
		c.finish(good)
		_, text := c.translate(m)
		return text
	}
	return nil
}

// resume resumes a stream that ended before its response, after its last event: since
// 2025-11-25 a server may close a stream so that its client polls.
func (c *callToLegacy) resume() bool {
	if c.answer == nil || c.hasRejected() {
		return false
	}
	last := c.answer.LastID
	if last == "" || c.resumptions == maxResumptions || c.ctx.Err() != nil {
		return false
	}
	c.resumptions++
	c.wait()
	if !retry.Wait(c.ctx, resumePause) {
		return false
	}
	out := c.request
	out.Session, out.Body, out.LastEventID, out.Header = c.conn.session, nil, last, withoutMirrors(c.request.Header)
	resp, err := c.t.opts.Direct.Listen(c.ctx, &out)
	if err != nil {
		return false
	}
	if resp.Status != http.StatusOK || resp.MediaType() != EventStream {
		resp.Body.Close()
		return false
	}
	next := NewMessages(resp, c.waiter())
	next.LastID = last
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == ended { // ended concurrently by another goroutine, which has closed the response
		next.Close()
		return false
	}
	c.answer.Close()
	c.answer = next
	return true
}

// broken returns the replacement of a message that cannot be read. After a question the
// client gets the information that the call may have had effects; before, it is an
// ordinary failure of the upstream.
func (c *turn) broken(err error) ([]byte, error) {
	if out := c.unanswered(); out != nil {
		return out, nil
	}
	if c.number == 0 || c.ctx.Err() != nil || !c.mine() {
		return nil, err
	}
	c.t.opts.Logger.Warn("an upstream failed after a question was answered", "upstream", c.t.opts.Upstream.Name, "request_id", c.requestID, "error", err)
	c.finish(cancelled)
	return c.failed(cmp.Or(inWords(err), "the upstream failed"), isUnknown), nil
}

// inWords describes for a client how an upstream failed; empty for other errors.
func inWords(err error) string {
	var failure *upstream.Error
	switch {
	case errors.As(err, &failure):
		return "the upstream failed: " + failure.Kind.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the upstream ended its answer too early"
	}
	return ""
}
