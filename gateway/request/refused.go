package request

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"svc/gateway/audit"
	"svc/gateway/http1"
)

// The rates up to which each request has a line of its own.
const (
	linesPerClient = 10  // per second
	linesInAll     = 100 // per second
)

// refusedInterval is the minimum time between two summaries.
const refusedInterval = time.Second

// Options are the dependencies of a [Counter].
type Options struct {
	// Write writes a summary. After an error the counts are added to the next one.
	Write func(from time.Time, during time.Duration, s *audit.Refused) error
	// Lost is called with the number of requests whose counts will be in no summary.
	Lost func(requests uint64)
	// Now returns the current time.
	Now func() time.Time
	// Logger gets the same counts.
	Logger *slog.Logger
}

// Counters are one counter of refused requests and one of preflights. Each has its own limit, so that a
// flood of preflights does not use up the lines of the others.
type Counters struct{ refused, preflights *Counter }

// NewRefused returns counters. [Counters.Close] writes the remaining counts.
func NewRefused(opts Options) *Counters { return &Counters{NewCounter(opts), NewCounter(opts)} }

// OwnLine is [Counter.OwnLine] of the counter for a kind.
func (c *Counters) OwnLine(client netip.Addr, kind string, at time.Time) bool {
	if kind == audit.CountPreflight {
		return c.preflights.OwnLine(client, kind, at)
	}
	return c.refused.OwnLine(client, kind, at)
}

// Close is [Counter.Close] of both counters.
func (c *Counters) Close(patience time.Duration) {
	c.refused.Close(patience)
	c.preflights.Close(patience)
}

// Counter decides which requests have a line of their own, and counts the others. It is safe for
// concurrent use, its memory is bounded, and it runs no goroutine while nothing is counted.
type Counter struct {
	opts Options

	mu     sync.Mutex // guards the fields below; never held while a summary is written
	second second
	count  tally       // not in a summary yet
	timer  *time.Timer // nil unless a summary is scheduled
	closed bool
	// written is the counts of the summary that is being written; empty otherwise.
	written tally

	writing chan struct{} // contains a token while a summary is written
}

// NewCounter returns a counter. [Counter.Close] writes the remaining counts.
func NewCounter(opts Options) *Counter {
	return &Counter{opts: opts, writing: make(chan struct{}, 1)}
}

// OwnLine reports whether a request that was refused at a time gets an audit line of its own, which the
// caller then writes. Otherwise the request was counted.
func (c *Counter) OwnLine(client netip.Addr, errorKind string, at time.Time) bool {
	network := http1.Network(client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.second.admits(network, at) {
		return true
	}
	c.count.add(network, errorKind, at)
	c.schedule()
	return false
}

// schedule schedules a summary, unless one is scheduled. The caller holds mu.
func (c *Counter) schedule() {
	if c.timer == nil && !c.closed {
		c.timer = time.AfterFunc(refusedInterval, c.summarize)
	}
}

// summarize writes the counts. If that fails, they are added to the count again.
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

// Close writes the last summary; it must be called after the last request has ended. Within the timeout
// the counts are in the audit file, or reported as lost and logged.
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
	case <-limit.C: // a summary is being written, and may still reach the file
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
