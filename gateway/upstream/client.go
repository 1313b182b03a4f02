package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Request is one request to the upstream. The client keeps nothing of it after
// Do has returned.
type Request struct {
	// Method is GET, POST, DELETE or another token; HEAD and CONNECT, whose
	// answers are framed differently, are refused.
	Method string
	// Header holds the fields to send. Fields that frame the message or belong to
	// the connection (Host, Content-Length, Accept-Encoding, …) are the client's
	// own and skipped here, and so are those that the configuration sets. A value
	// with a line break or another control character refuses the request.
	Header Header
	// Body is sent as it stands.
	Body []byte
	// Idempotent declares that the upstream may receive the request twice without
	// harm. GET and DELETE are so by definition; a tool call is not.
	Idempotent bool
	// Timeouts replaces the configured time-outs when it is not nil.
	Timeouts *Timeouts
}

// Timeouts bounds the waits of one request. Zero means no bound. A wait may last
// up to an eighth longer than asked: timers are set once for many requests.
type Timeouts struct {
	// FirstByte is from the start of Do to the first byte of the answer.
	FirstByte time.Duration
	// Between is the longest wait for more of the answer.
	Between time.Duration
}

// Response is the answer of the upstream.
type Response struct {
	// Status is 200 to 599; interim answers are not shown.
	Status int
	// Header holds the fields in their order. Fields that frame the message are
	// among them, for inspection; they are not meant to be passed on.
	Header Header
	// ContentLength is the length of the body, or -1 when it is not known.
	ContentLength int64
	// Body streams the body and must be closed. Read returns what has arrived,
	// and io.EOF, also together with the last bytes, only when the body is
	// complete; every other error is an [*Error]. Close may be called while a Read
	// waits in another goroutine, and ends it.
	Body io.ReadCloser
}

// Client is a pool of connections to one upstream. It is safe for concurrent
// use.
type Client struct {
	name     string
	logURL   string
	target   target
	timeouts Timeouts
	maxBody  int64
	pool     pool
}

// Option changes a bound of a [Client]; the defaults serve.
type Option func(*pool)

// MaxConns bounds how many connections are open at once, streams included. A
// request beyond it waits for one, as long as its first-byte time-out allows.
func MaxConns(n int) Option { return func(p *pool) { p.maxConns = max(n, 1) } }

// MaxIdle bounds how many connections wait for the next request.
func MaxIdle(n int) Option { return func(p *pool) { p.maxIdle = max(n, 0) } }

// IdleTimeout is how long a connection waits for the next request, unless the
// upstream said that it closes sooner or later.
func IdleTimeout(d time.Duration) Option { return func(p *pool) { p.idleTimeout = d } }

// MaxAge is how long a connection is used at most, so that a name that resolves
// to another address is noticed under constant load too.
func MaxAge(d time.Duration) Option { return func(p *pool) { p.maxAge = d } }

// NewClient returns a client for the upstream. It reads the certificate files
// and resolves nothing: the upstream need not be there yet. Close it when done.
func NewClient(cfg Config, opts ...Option) (*Client, error) {
	t, err := newTarget(&cfg)
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	c := &Client{
		name:     cfg.Name,
		logURL:   LogURL(cfg.URL),
		target:   t,
		timeouts: Timeouts{FirstByte: cfg.Timeout, Between: cfg.Timeout},
		maxBody:  cfg.MaxResponseBytes,
	}
	if c.maxBody <= 0 {
		c.maxBody = DefaultMaxResponseBytes
	}
	c.pool.init(&c.target)
	for _, o := range opts {
		o(&c.pool)
	}
	return c, nil
}

// Name returns the logical name of the upstream.
func (c *Client) Name() string { return c.name }

// LogURL returns the URL of the upstream as a log may show it: see [LogURL].
func (c *Client) LogURL() string { return c.logURL }

// Do sends the request and returns the answer as soon as its header is there.
// Every error is an [*Error]; errors.Is tells ErrUnreachable, ErrTimeout,
// ErrInvalidResponse, ErrInvalidRequest, ErrClosed and the context's own errors
// apart. The context covers the body too: when it ends, the connection is closed
// and a Read that waits returns.
//
// A request is sent a second time, on a fresh connection, in two cases only,
// both on a connection that had been used before. One is that the kernel took no
// byte of it, so that the upstream cannot have seen any. The other is that the
// request is idempotent and the connection ended without a byte of an answer.
// For anything else a connection that ends proves nothing: an upstream that ran
// the call and died looks the same as one that closed before it came.
func (c *Client) Do(ctx context.Context, req *Request) (*Response, error) {
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
	return &x.Response, nil
}

// Close closes the idle connections and refuses new requests. Exchanges that are
// running go on to their end; [Client.Drain] waits for them.
func (c *Client) Close() error {
	c.pool.close()
	return nil
}

// Drain closes the client and waits until the exchanges that are running have
// ended. When the context ends first it cuts them off and returns its error.
func (c *Client) Drain(ctx context.Context) error {
	return c.pool.drain(ctx)
}

// Stats is the state of a pool at one moment.
type Stats struct {
	// Open counts the connections, those being made included; Idle those of them
	// that wait for a request.
	Open, Idle int
	// Waiting counts the requests that wait because Open is at its bound.
	Waiting int
	// Dials counts the connections ever made or tried.
	Dials uint64
}

// Stats returns the state of the pool.
func (c *Client) Stats() Stats { return c.pool.stats() }

// fail makes the error that leaves the package.
func (c *Client) fail(op string, sent bool, err error) error {
	return &Error{Upstream: c.name, Op: op, Kind: kindOf(err, op == opConnect), Sent: sent, Err: err}
}

func (r *Request) idempotent() bool {
	return r.Idempotent || r.Method == "GET" || r.Method == "DELETE"
}
