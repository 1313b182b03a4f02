package upstream

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"svc/gateway/mcp"
)

// HTTPRequest is one request to the upstream. The client retains nothing of it after Do has
// returned.
type HTTPRequest struct {
	// Method is GET, POST, DELETE or another token; HEAD and CONNECT, whose responses are
	// framed differently, are rejected.
	Method string
	// Header holds the fields to send. Fields that frame the message or belong to the
	// connection (Host, Content-Length, Accept-Encoding, …) are set by the client and
	// skipped here, and so are fields that the configuration sets. A value with a line
	// break or another control character causes an error.
	Header mcp.Header
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

// HTTPResponse is the response to an [HTTPRequest].
type HTTPResponse struct {
	// Status is 200 to 599; interim responses are skipped.
	Status int
	// Header holds the fields in their order, including fields that frame the message,
	// which must not be forwarded.
	Header mcp.Header
	// ContentLength is the length of the body, or -1 when it is not known.
	ContentLength int64
	// Body streams the body and must be closed. Read returns the data that has arrived,
	// and io.EOF, also together with the last bytes, only when the body is complete;
	// every other error is an [*Error]. Close may be called while a Read waits in another
	// goroutine, and ends it.
	Body io.ReadCloser

	client *Client // nil for a response of the gateway itself
}

// Dropped counts an event of the response that carries no message and is not forwarded, and
// logs the reason, at most once a minute for an upstream.
func (r *HTTPResponse) Dropped(reason error) {
	if r.client != nil {
		r.client.drop(reason)
	}
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
	log      *slog.Logger

	dropped  atomic.Uint64
	reported atomic.Int64 // when a dropped event was logged, in the time of the pool; 0 for never
}

// option sets a bound of a [Client] in tests.
type option func(*pool)

// NewClient returns a client for the upstream. It reads the certificate files and
// resolves no name: the upstream may still be unavailable. It must be closed.
func NewClient(cfg Config, opts ...option) (*Client, error) {
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
	// Dropped counts the events of event streams that carried no message and were not forwarded.
	Dropped uint64
}

// Stats returns the state of the pool.
func (c *Client) Stats() Stats {
	s := c.pool.stats()
	s.Dropped = c.dropped.Load()
	return s
}

// LogTo sets the log for what responses hold and is not forwarded. It is called before the
// first request.
func (c *Client) LogTo(log *slog.Logger) { c.log = log }

// drop counts and logs an event that is not forwarded.
func (c *Client) drop(reason error) {
	total := c.dropped.Add(1)
	now, last := int64(c.pool.now()), c.reported.Load()
	if c.log == nil || last != 0 && now-last < int64(dropInterval) || !c.reported.CompareAndSwap(last, now) {
		return
	}
	c.log.Warn("an event of an upstream's event stream carries no message and is not forwarded",
		"upstream", c.name, "url", c.logURL, "reason", Printable(reason.Error(), maxCauseText), "dropped_so_far", total)
}

// dropInterval is the time between two log lines about dropped events of one upstream.
const dropInterval = time.Minute

// fail creates the error that the package returns.
func (c *Client) fail(op string, sent bool, err error) error {
	return &Error{Upstream: c.name, Op: op, Kind: kindOf(err, op == opConnect), Sent: sent, Err: err}
}
