// Package refused bounds the audit lines of requests that are refused before their
// caller was identified, and of CORS preflights. Anybody can send those, as many as the network carries,
// and their lines would rotate everything else out of the audit trail: past a rate
// they are counted, and one line a second has the counts.
package refused

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"svc/gateway/audit"
	"svc/gateway/clientip"
)

// The rates up to which a request has a line of its own.
const (
	linesPerClient = 10  // a second
	linesInAll     = 100 // a second
)

// interval is the shortest time between two summaries.
const interval = time.Second

// Options are what a [Counter] needs.
type Options struct {
	// Write writes a summary. After an error the counts go into the next one.
	Write func(from time.Time, during time.Duration, s *audit.Refused) error
	// Lost is told of requests whose counts no summary will have.
	Lost func(requests uint64)
	// Now returns the time.
	Now func() time.Time
	// Logger receives the same requests, with their counts.
	Logger *slog.Logger
}

// Counters are one counter of refused requests and one of preflights, which have a
// bound of their own, so that a flood of these takes no lines from the others.
type Counters struct{ refused, preflights *Counter }

// New returns counters. [Counters.Close] writes what is left.
func New(opts Options) *Counters { return &Counters{NewCounter(opts), NewCounter(opts)} }

// OwnLine is [Counter.OwnLine] of the counter for the kind.
func (c *Counters) OwnLine(client netip.Addr, kind string, at time.Time) bool {
	if kind == audit.CountPreflight {
		return c.preflights.OwnLine(client, kind, at)
	}
	return c.refused.OwnLine(client, kind, at)
}

// Close is [Counter.Close] of both.
func (c *Counters) Close(patience time.Duration) {
	c.refused.Close(patience)
	c.preflights.Close(patience)
}

// Counter decides which requests have a line of their own, and counts the others.
// It is safe for concurrent use, and its memory is bounded. Nothing runs while
// nothing was counted.
type Counter struct {
	opts Options

	mu     sync.Mutex // guards what follows; never held while a summary is written
	second second
	count  tally       // in no summary yet
	timer  *time.Timer // nil unless a summary is due
	closed bool
	// written are the counts in the summary that is being written; empty otherwise.
	written tally

	writing chan struct{} // holds a token while a summary is written
}

// NewCounter returns a counter. [Counter.Close] writes what is left.
func NewCounter(opts Options) *Counter {
	return &Counter{opts: opts, writing: make(chan struct{}, 1)}
}

// OwnLine reports whether a request that was refused at a time has an audit line of
// its own, which the caller then writes. Otherwise it was counted.
func (c *Counter) OwnLine(client netip.Addr, errorKind string, at time.Time) bool {
	network := clientip.Network(client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.second.admits(network, at) {
		return true
	}
	c.count.add(network, errorKind, at)
	c.schedule()
	return false
}

// schedule makes a summary due, unless one is. The caller holds mu.
func (c *Counter) schedule() {
	if c.timer == nil && !c.closed {
		c.timer = time.AfterFunc(interval, c.summarize)
	}
}

// summarize writes what was counted. What could not be written is counted again.
func (c *Counter) summarize() {
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	c.mu.Lock()
	c.timer = nil
	c.written, c.count = c.count, c.written
	c.mu.Unlock()
	if c.written.requests == 0 {
		return
	}
	now := c.opts.Now()
	err := c.opts.Write(c.written.first, max(0, now.Sub(c.written.first)), c.written.line())
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.count.merge(&c.written)
		c.schedule()
	}
	c.written.reset()
}

// Close writes the last summary; it must be called after the last request has
// ended. Within the patience the counts are in the audit file, or reported as lost
// and logged.
func (c *Counter) Close(patience time.Duration) {
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.summarize()
	}()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C: // a summary is being written, and may yet reach the file
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.count.requests; n > 0 {
		c.opts.Lost(n)
		c.opts.Logger.Error("refused requests were counted, and the audit file has no summary of them", "requests", n, "counts", c.count.kinds)
	}
	if n := c.written.requests; n > 0 {
		c.opts.Logger.Error("refused requests were counted, and it is not certain that the audit file has their summary", "requests", n, "counts", c.written.kinds)
	}
}
