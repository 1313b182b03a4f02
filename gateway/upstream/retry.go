package upstream

import (
	"context"
	"errors"
)

// Do sends the request and returns the response as soon as its header has arrived. Every
// error is an [*Error]; errors.Is distinguishes ErrUnreachable, ErrTimeout,
// ErrInvalidResponse, ErrInvalidRequest, ErrClosed and the context's own errors. The
// context covers the body too: when it ends, the connection is closed and a waiting Read
// returns.
//
// A request is sent a second time, on a new connection, in two cases only, both on a
// connection that had been used before. First, the kernel accepted no byte of the
// request, so that the upstream cannot have received any. Second, the request is
// idempotent and the connection ended without a byte of a response. In all other cases
// the end of a connection proves nothing: an upstream that failed after it ran the call
// looks the same as an upstream that closed the connection before the request arrived.
func (c *Client) Do(ctx context.Context, req *HTTPRequest) (*HTTPResponse, error) {
	resp, err := c.do(ctx, req)
	if err != nil {
		return nil, err
	}
	return &resp.HTTPResponse, nil
}

// do is Do. The response has room for what a transport adds to it.
func (c *Client) do(ctx context.Context, req *HTTPRequest) (*Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, c.fail(opConnect, false, err)
	}
	out := getWriteBuffer()
	defer putWriteBuffer(out)
	if err := c.target.appendRequest(out, req); err != nil {
		return nil, c.fail(opWrite, false, err)
	}
	t := &c.timeouts
	if req.Timeouts != nil {
		t = req.Timeouts
	}
	x := &exchange{client: c, ctx: ctx, between: t.Between, start: c.pool.now()}
	x.firstByte = t.FirstByte
	cn, err := c.pool.get(ctx, x.start, t.FirstByte, false)
	if err != nil {
		return nil, c.fail(opConnect, false, err)
	}
	sent, err := x.roundTrip(cn, out, req.Body)
	if err != nil && cn.uses > 0 && ctx.Err() == nil && (!sent || req.idempotent() && errors.Is(err, errNoAnswer)) {
		if cn, err = c.pool.get(ctx, x.start, t.FirstByte, true); err != nil {
			return nil, c.fail(opConnect, sent, err)
		}
		var again bool
		again, err = x.roundTrip(cn, out, req.Body)
		sent = sent || again
	}
	if err != nil {
		return nil, c.fail(x.op, sent, err)
	}
	x.Response.client = c
	return &x.Response, nil
}

func (r *HTTPRequest) idempotent() bool {
	return r.Idempotent || r.Method == "GET" || r.Method == "DELETE"
}
