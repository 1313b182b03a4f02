// Package streams passes event streams on: from one upstream in answer to a request,
// or merged from all upstreams of a session in answer to GET.
//
// [Client] is the client's side of a stream: where frames are written, with a watchdog
// that keeps a silent stream alive and ends one that may not go on. [Upstream] is the
// side of one upstream: it reads frames and hands each to a [Handler]. [Merged] joins
// several upstreams to one client. What frames hold is judged and recorded by the
// handlers; nothing here knows rules, audit lines or a gateway.
package streams

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"svc/gateway/bodies"
)

const (
	// MaxFrames bounds an ordinary event stream (gateway specification, Limits).
	MaxFrames = 10_000
	// DefaultWriteTimeout bounds one write to a client that reads slowly. Back-pressure
	// reaches the upstream long before. It is set again at most once in
	// writeTimeoutStep, not for each frame.
	DefaultWriteTimeout = 60 * time.Second
	writeTimeoutStep    = time.Second
	// checkInterval is how long a silent stream may go on after its caller's
	// credentials ceased to be valid. No frame passes meanwhile.
	checkInterval = 15 * time.Second
)

// Host is the request whose response a stream is.
type Host interface {
	// Now returns the time, by the monotonic clock.
	Now() time.Time
	// CredentialsValid returns nil while the caller is accepted, by the configuration of
	// the moment, and caller.ErrRevoked or an error that wraps it afterwards.
	CredentialsValid() error
	// Keepalive returns how long the client may be sent nothing, by the configuration of
	// the moment; 0 for any time.
	Keepalive() time.Duration
	// Panicked logs a panic in a goroutine of the stream, which ends.
	Panicked(where string, value any, stack []byte)
}

// Options are what the client's side of a stream is made of.
type Options struct {
	Host   Host
	Writer http.ResponseWriter
	// Cancel ends the stream's context with the reason.
	Cancel context.CancelCauseFunc
	// Limit is how many frames pass; Idle the longest time between two of them, 0 for
	// any time.
	Limit int
	Idle  time.Duration
	// WriteTimeout bounds one write.
	WriteTimeout time.Duration
	// Bodies counts the bytes of events that are being read, as those of Caller.
	Bodies *bodies.Counter
	Caller bodies.Caller
}

// Counts are what passed on a stream.
type Counts struct {
	Frames   int // that arrived, whatever became of them
	Replaced int // lone surrogates in them
	Sent     int // bytes, to the client
}

// Client is the client's side of an event stream: where the frames of one or more
// upstreams are written. What may pass goes on byte for byte in framing of its own,
// and is flushed before its upstream is waited for again.
//
// A watchdog shares the connection with the upstreams' goroutines; mu keeps them
// apart.
type Client struct {
	opts    Options
	control *http.ResponseController

	mu        sync.Mutex // guards what follows, and the client's connection
	unflushed bool
	counts    Counts
	lastWrite time.Time
	lastFrame time.Time
	deadline  time.Time // when the write deadline was set
	ended     bool
	timer     *time.Timer
}

// Init makes the zero value usable.
func (c *Client) Init(opts Options) {
	c.opts, c.control = opts, http.NewResponseController(opts.Writer)
}

// Start writes the header and starts the watchdog. The header goes out with the
// first frame when that has arrived already, else before the stream waits for it.
func (c *Client) Start() {
	h := c.opts.Writer.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache, no-transform"}
	h["X-Accel-Buffering"] = []string{"no"}
	c.opts.Writer.WriteHeader(http.StatusOK)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opts.Host.Now()
	c.lastWrite, c.lastFrame = now, now
	c.unflushed = true
	c.timer = time.AfterFunc(c.nextWake(now), c.watchdog)
}

// Stop ends the watchdog: nothing of the stream uses the writer or the host from then
// on.
func (c *Client) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	_ = c.control.SetWriteDeadline(time.Time{})
}

// Counts returns what has passed until now.
func (c *Client) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Last writes the event that ends the stream, and flushes.
func (c *Client) Last(event []byte) {
	if c.send(event) == nil {
		c.FlushPending()
	}
}

// FlushPending sends what was written: the client does not wait for a frame because
// the upstream, or a guardrail, is waited for.
func (c *Client) FlushPending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unflushed {
		c.flush()
	}
}

// send writes one event. It reaches the client at the latest when the stream
// waits for the upstream again.
func (c *Client) send(event []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opts.Host.Now()
	c.lastWrite = now
	c.unflushed = true
	n, err := c.write(now, event)
	c.counts.Sent += n
	return err
}

// write writes to the client, for at most about the write time-out. The caller holds
// mu.
func (c *Client) write(now time.Time, p []byte) (int, error) {
	if now.Sub(c.deadline) >= writeTimeoutStep {
		c.deadline = now
		_ = c.control.SetWriteDeadline(time.Now().Add(c.opts.WriteTimeout))
	}
	return c.opts.Writer.Write(p)
}

// flush sends what was written. The caller holds mu.
func (c *Client) flush() {
	c.unflushed = false
	_ = c.control.Flush() // a broken connection shows in the next write
}

// arrived counts a frame; false when it is one too many.
func (c *Client) arrived() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Frames++
	c.lastFrame = c.opts.Host.Now()
	return c.counts.Frames <= c.opts.Limit
}

// replaced counts the lone surrogates that were replaced in a frame.
func (c *Client) replaced(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Replaced += n
}

// nextWake returns how long the watchdog may sleep. The caller holds mu.
func (c *Client) nextWake(now time.Time) time.Duration {
	next := checkInterval
	if alive := c.opts.Host.Keepalive(); alive > 0 {
		next = min(next, alive-now.Sub(c.lastWrite))
	}
	if c.opts.Idle > 0 {
		next = min(next, c.opts.Idle-now.Sub(c.lastFrame))
	}
	return max(next, time.Millisecond)
}

// watchdog ends the stream when it is idle for too long or its caller is no longer
// accepted, and keeps it alive with comments. It runs on the timer's goroutine.
func (c *Client) watchdog() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return // the host may be another request's by now
	}
	defer func() {
		if p := recover(); p != nil {
			c.panicked("watchdog of a stream", p)
		}
	}()
	if err := c.opts.Host.CredentialsValid(); err != nil {
		c.opts.Cancel(err)
		return
	}
	now := c.opts.Host.Now()
	if c.opts.Idle > 0 && now.Sub(c.lastFrame) >= c.opts.Idle {
		c.opts.Cancel(ErrIdle)
		return
	}
	if alive := c.opts.Host.Keepalive(); alive > 0 && now.Sub(c.lastWrite) >= alive {
		if _, err := c.write(now, []byte(": keepalive\n\n")); err != nil {
			c.opts.Cancel(err)
			return
		}
		c.lastWrite = now
		c.flush()
	}
	c.timer.Reset(c.nextWake(now))
}

// panicked logs a panic and ends the stream.
func (c *Client) panicked(where string, value any) {
	c.opts.Host.Panicked(where, value, debug.Stack())
	c.opts.Cancel(ErrPanic)
}
