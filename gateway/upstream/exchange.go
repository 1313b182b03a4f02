package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"svc/gateway/mcp"
)

// The steps that an Error names.
const (
	opConnect = "connect"
	opWrite   = "send the request"
	opHead    = "read the response header"
	opBody    = "read the response body"
)

// earlyAnswerWait is the time to wait for a response after the upstream stopped reading
// the request: the response may contain the reason.
const earlyAnswerWait = 250 * time.Millisecond

// exchange is one request and its response. It is one allocation: the response, in the form that
// transports return, its body and space for its fields.
type exchange struct {
	Response
	client    *Client
	ctx       context.Context
	start     time.Duration
	firstByte time.Duration
	between   time.Duration
	op        string
	stop      func() bool // stops watching ctx
	body      body
	fields    [16]mcp.Field
}

// roundTrip sends the request on cn and reads the header of the response. After an error
// the connection is closed, and sent reports whether the upstream may have received a
// byte of the request.
func (x *exchange) roundTrip(cn *conn, out *writeBuffer, reqBody []byte) (sent bool, err error) {
	p := &x.client.pool
	x.watch(cn)
	x.op = opWrite
	x.armFirstByte(cn)
	n, err := cn.write(out, reqBody)
	usable := err == nil
	if err != nil && n > 0 {
		cn.armFor(p, earlyAnswerWait)
		if x.readHead(cn) == nil {
			err = nil
		} else if isReset(err) {
			err = fmt.Errorf("%w: %w", errNoAnswer, err)
		}
	} else if err == nil {
		x.op = opHead
		err = x.readHead(cn)
	}
	if err != nil {
		if !x.unwatch() {
			err = x.ctx.Err()
		}
		p.discard(cn)
		return n > 0, err
	}
	x.begin(usable)
	return true, nil
}

// watch closes the connection when the context ends. A context with its own AfterFunc
// makes this cheaper than package context does.
func (x *exchange) watch(cn *conn) {
	if direct, ok := x.ctx.(interface{ AfterFunc(func()) func() bool }); ok {
		x.stop = direct.AfterFunc(cn.abortFunc)
	} else if x.ctx.Done() != nil {
		x.stop = context.AfterFunc(x.ctx, cn.abortFunc)
	}
}

// unwatch stops watching the context. It returns false when the context has ended: then
// the connection is closed or about to be closed.
func (x *exchange) unwatch() bool { return x.stop == nil || x.stop() }

func (x *exchange) armFirstByte(cn *conn) {
	if x.firstByte <= 0 {
		cn.arm(&x.client.pool, 0, 0)
		return
	}
	cn.arm(&x.client.pool, x.start+x.firstByte, x.firstByte/8)
}

// readHead reads the header of the response and skips interim responses.
func (x *exchange) readHead(cn *conn) error {
	if len(cn.unread()) == 0 {
		if err := cn.fill(); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) {
				return fmt.Errorf("%w: %w", errNoAnswer, err)
			}
			return err
		}
	}
	for interim := 0; ; interim++ {
		if interim > maxInterim {
			return invalidf("more than %d interim responses", maxInterim)
		}
		n, err := x.awaitHead(cn)
		if err != nil {
			return err
		}
		h := head{fields: x.fields[:0]}
		err = h.parse(string(cn.unread()[:n]))
		if err != nil {
			return err
		}
		cn.r += n
		switch {
		case h.status == 101:
			return invalidf("switches protocols without a request for it")
		case h.status >= 200:
			return x.accept(cn, &h)
		}
		x.armFirstByte(cn)
	}
}

// awaitHead waits until a complete header is buffered and returns its length. After the
// first byte, the whole header must arrive within one wait between bytes, so that it
// cannot arrive in small pieces without limit.
func (x *exchange) awaitHead(cn *conn) (int, error) {
	seen := 0
	dripping := false
	for {
		b := cn.unread()
		if n := headEnd(b, seen); n > 0 {
			return n, nil
		}
		if len(b) >= maxHead {
			return 0, invalidf("the header is larger than %d bytes", maxHead)
		}
		if len(b) > 0 && !dripping {
			dripping = true
			cn.armFor(&x.client.pool, x.between)
		}
		seen = len(b)
		if err := cn.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
}

// accept processes the header of the final response.
func (x *exchange) accept(cn *conn, h *head) error {
	kind, length, reuse, keepAlive, err := h.frame()
	if err != nil {
		return err
	}
	if length > x.client.maxBody && !isEventStream(h.fields) {
		return ErrTooLarge
	}
	x.Status, x.Header, x.ContentLength = h.status, h.fields, length
	x.body = body{x: x, cn: cn, kind: kind, remaining: length, reuse: reuse, limit: x.client.maxBody}
	if isEventStream(h.fields) {
		x.body.limit = noLimit
	}
	cn.keepAlive = keepAlive
	x.Body = &x.body
	return nil
}

// begin returns the body to the caller, or ends the exchange when there is none. usable
// means that the whole request was sent.
func (x *exchange) begin(usable bool) {
	b := &x.body
	b.reuse = b.reuse && usable
	if b.kind == framedNone {
		b.err = io.EOF
		b.state.Store(bodyEnded)
		b.release(true)
	}
}

func isEventStream(h mcp.Header) bool {
	const media = "text/event-stream"
	v := h.Get("Content-Type")
	return len(v) >= len(media) && mcp.EqualName(v[:len(media)], media) &&
		(len(v) == len(media) || v[len(media)] == ';' || isSpace(v[len(media)]))
}
