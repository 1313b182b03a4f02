package streams

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"svc/gateway/session/bodies"
)

const (
	// MaxFrames bounds an ordinary event stream (gateway specification, Limits).
	MaxFrames = 10_000
	// MaxDropped bounds the events of a stream that are no messages and are left out, such as
	// heartbeats, if the stream has no larger limit. They do not count as frames of the limit.
	MaxDropped = 100_000
	// DefaultWriteTimeout bounds one write to a client that reads slowly. Back-pressure
	// reaches the upstream long before. The deadline is set again at most once in
	// writeTimeoutStep, not for each frame.
	DefaultWriteTimeout = 60 * time.Second
	writeTimeoutStep    = time.Second
	// checkInterval is how long an idle stream may continue after its caller's
	// credentials became invalid without a change of the configuration, as a token that
	// expires. No frame is sent in that time.
	checkInterval = 15 * time.Second
)

// Host is the request whose response is a stream.
type Host interface {
	// Now returns the time of the monotonic clock.
	Now() time.Time
	// CredentialsValid returns nil while the caller's credentials are accepted by the
	// current configuration, and otherwise auth.ErrRevoked or an error that wraps it.
	CredentialsValid() error
	// Keepalive returns the maximum time without data to the client, by the current
	// configuration; 0 for no maximum.
	Keepalive() time.Duration
	// Panicked logs a panic in a goroutine of the stream, which then ends.
	Panicked(where string, value any, stack []byte)
}

// Options are the settings of the client's side of a stream.
type Options struct {
	Host   Host
	Writer http.ResponseWriter
	// Cancel ends the stream's context with the reason.
	Cancel context.CancelCauseFunc
	// Limit is the maximum number of frames that are messages; Idle the maximum time between two of them,
	// 0 for no maximum.
	Limit int
	Idle  time.Duration
	// WriteTimeout bounds one write.
	WriteTimeout time.Duration
	// Open has the stream from Start to Stop; it may be nil.
	Open *Open
	// Bodies counts the bytes of events that are being read, charged to Caller.
	Bodies *bodies.Counter
	Caller bodies.Caller
}

// Counts are the counts of a stream.
type Counts struct {
	Frames   int // received, whether forwarded or not
	Replaced int // lone surrogates in them
	Sent     int // bytes written to the client
}

// Client is the client's side of an event stream: it writes the frames of one or more
// upstreams. The data of forwarded frames is unchanged byte for byte, the framing is
// written anew, and it is flushed before the upstream is waited for again.
//
// A watchdog shares the connection with the upstreams' goroutines; mu serializes them.
type Client struct {
	opts    Options
	control *http.ResponseController

	mu        sync.Mutex // guards the fields below, and the client's connection
	unflushed bool
	counts    Counts
	left      int // frames that were left out, because they are no messages
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

// Start writes the header and starts the watchdog. The header is sent with the first
// frame if that has already arrived, otherwise before the stream waits for it.
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
	c.opts.Open.add(c)
	c.endInvalid() // a change of the configuration may have preceded add
}

// endInvalid ends the stream if its caller's credentials are invalid.
func (c *Client) endInvalid() {
	if err := c.opts.Host.CredentialsValid(); err != nil {
		c.opts.Cancel(err)
	}
}

// Stop ends the watchdog: afterwards the stream does not use the writer or the host.
func (c *Client) Stop() {
	c.opts.Open.remove(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	_ = c.control.SetWriteDeadline(time.Time{})
}

// Counts returns the current counts.
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

// FlushPending flushes before the upstream or a guardrail is waited for, so that no
// frame waits in the buffer.
func (c *Client) FlushPending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unflushed {
		c.flush()
	}
}

// send writes one event. It is flushed at the latest before the stream waits for the
// upstream again.
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

// write writes to the client, with the write timeout. The caller holds mu.
func (c *Client) write(now time.Time, p []byte) (int, error) {
	if now.Sub(c.deadline) >= writeTimeoutStep {
		c.deadline = now
		_ = c.control.SetWriteDeadline(time.Now().Add(c.opts.WriteTimeout))
	}
	return c.opts.Writer.Write(p)
}

// flush flushes written data. The caller holds mu.
func (c *Client) flush() {
	c.unflushed = false
	_ = c.control.Flush() // the next write returns the error of a broken connection
}

// arrived counts a frame; false when the limit is exceeded.
func (c *Client) arrived() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Frames++
	c.lastFrame = c.opts.Host.Now()
	return c.counts.Frames-c.left <= c.opts.Limit
}

// leftOut counts a frame that arrived and is left out; false when there are too many of them.
func (c *Client) leftOut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left++
	return c.left <= max(MaxDropped, c.opts.Limit)
}

// replaced counts the lone surrogates that were replaced in a frame.
func (c *Client) replaced(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Replaced += n
}

// nextWake returns the time until the watchdog must run again. The caller holds mu.
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

// watchdog ends the stream when it is idle for too long or its caller's credentials are
// invalid, and sends keepalive comments. It runs on the timer's goroutine.
func (c *Client) watchdog() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return // the host may already serve another request
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
