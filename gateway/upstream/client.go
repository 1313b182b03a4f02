package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Request is one request to the upstream. The client retains nothing of it after Do has
// returned.
type Request struct {
	// Method is GET, POST, DELETE or another token; HEAD and CONNECT, whose responses are
	// framed differently, are rejected.
	Method string
	// Header holds the fields to send. Fields that frame the message or belong to the
	// connection (Host, Content-Length, Accept-Encoding, …) are set by the client and
	// skipped here, and so are fields that the configuration sets. A value with a line
	// break or another control character causes an error.
	Header Header
	// Body is sent unchanged.
	Body []byte
	// Idempotent declares that the upstream may receive the request twice without harm.
	// GET and DELETE are idempotent by definition; a tool call is not.
	Idempotent bool
	// Timeouts replaces the configured timeouts when it is not nil.
	Timeouts *Timeouts
}

// Timeouts bounds the waits of one request. Zero means no limit. A wait may last up to an
// eighth longer: timers are set once for many requests.
type Timeouts struct {
	// FirstByte is the time from the start of Do to the first byte of the response.
	FirstByte time.Duration
	// Between is the longest wait for more of the response.
	Between time.Duration
}

// Response is the response of the upstream.
type Response struct {
	// Status is 200 to 599; interim responses are skipped.
	Status int
	// Header holds the fields in their order, including fields that frame the message,
	// which must not be forwarded.
	Header Header
	// ContentLength is the length of the body, or -1 when it is not known.
	ContentLength int64
	// Body streams the body and must be closed. Read returns the data that has arrived,
	// and io.EOF, also together with the last bytes, only when the body is complete;
	// every other error is an [*Error]. Close may be called while a Read waits in another
	// goroutine, and ends it.
	Body io.ReadCloser
	// Dialect is the protocol revision of the request at the upstream, if the message was
	// translated; empty if it was sent unchanged.
	Dialect string
	// Refused is set if the gateway refused the message instead of the upstream, or ended
	// its call: the body is the gateway's own. It is nil for a response of the upstream.
	Refused *Refused
	// Parts returns the parts of a response that the gateway assembled from several
	// upstreams; nil for all others.
	Parts func() *Parts
}

// OnRefused calls f if the gateway responds instead of the upstream: at once if it has
// already, or before the last message of a stream that it ends. The body is read afterwards,
// by the same goroutine.
func (r *Response) OnRefused(f func(*Refused)) {
	if r.Refused != nil {
		f(r.Refused)
	} else if stream, ok := r.Body.(interface{ OnRefused(func(*Refused)) }); ok {
		stream.OnRefused(f)
	}
}

// Refused is the reason why the gateway responded instead of the upstream.
type Refused struct {
	Kind  string // the error_kind of the audit line
	Cause string // in words, for the log
}

// Parts are the parts of several upstreams in one response. Each is evaluated like that
// upstream's own response.
type Parts struct {
	List []Part
	// Join returns the response with the remaining parts in order: the result of each, nil
	// for an omitted one.
	Join func(results [][]byte) []byte
}

// Part is the part of one upstream: a result, as a JSON object.
type Part struct {
	Upstream string
	Result   []byte
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

// Option sets a bound of a [Client]; the defaults suit most uses.
type Option func(*pool)

// MaxConns bounds the number of open connections, including streams. A request beyond it
// waits for a connection, up to its first-byte timeout.
func MaxConns(n int) Option { return func(p *pool) { p.maxConns = max(n, 1) } }

// MaxIdle bounds the number of idle connections.
func MaxIdle(n int) Option { return func(p *pool) { p.maxIdle = max(n, 0) } }

// IdleTimeout is the time after which an idle connection is closed, unless the upstream
// announced another time.
func IdleTimeout(d time.Duration) Option { return func(p *pool) { p.idleTimeout = d } }

// MaxAge is the maximum lifetime of a connection, so that a change of the upstream's address
// takes effect under constant load too.
func MaxAge(d time.Duration) Option { return func(p *pool) { p.maxAge = d } }

// NewClient returns a client for the upstream. It reads the certificate files and
// resolves no name: the upstream may still be unavailable. It must be closed.
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

// LogURL returns the URL of the upstream for a log: see [LogURL].
func (c *Client) LogURL() string { return c.logURL }

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

// Close closes the idle connections and rejects new requests. Exchanges in flight
// continue; [Client.Drain] waits for them.
func (c *Client) Close() error {
	c.pool.close()
	return nil
}

// Drain closes the client and waits for the exchanges in flight. When the context ends
// first, Drain closes their connections and returns its error.
func (c *Client) Drain(ctx context.Context) error {
	return c.pool.drain(ctx)
}

// Stats is the state of a pool.
type Stats struct {
	// Open counts the connections, including those that are being made; Idle those that
	// wait for a request.
	Open, Idle int
	// Waiting counts the requests that wait because Open is at its limit.
	Waiting int
	// Dials counts the connections ever made or attempted.
	Dials uint64
	// InFlight counts the messages in flight, and BreakerOpen is set while the upstream's
	// breaker is open or half-open, if the configuration sets these limits.
	InFlight    int64
	BreakerOpen bool
	// Processes counts the processes of an upstream that is a program, ProcessStarts those
	// ever started, and ProcessExits those that ended by themselves or failed to start.
	Processes                   int
	ProcessStarts, ProcessExits uint64
}

// Stats returns the state of the pool.
func (c *Client) Stats() Stats { return c.pool.stats() }

// fail creates the error that the package returns.
func (c *Client) fail(op string, sent bool, err error) error {
	return &Error{Upstream: c.name, Op: op, Kind: kindOf(err, op == opConnect), Sent: sent, Err: err}
}

func (r *Request) idempotent() bool {
	return r.Idempotent || r.Method == "GET" || r.Method == "DELETE"
}
