// Package failures logs the failures of upstreams, with repeated ones aggregated.
package failures

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// interval is the time between two lines for one upstream and cause.
	interval = time.Minute
	// maxCauses bounds the number of causes that are distinguished at one time.
	maxCauses = 1024
	// queueSize bounds the lines that wait for a slow log.
	queueSize = 64
	// flushTimeout bounds the wait for a slow log when the gateway closes.
	flushTimeout = time.Second
)

// Failure is the reason why an upstream's response was not forwarded, or is missing.
type Failure struct {
	Upstream string
	URL      string
	// Code is the class of the cause; failures of one upstream with one code share a line in the
	// log.
	Code      string
	Cause     string // description
	Status    int    // of the upstream's response; 0 without one
	Body      string // beginning of a refused response, printable
	RequestID string
	// Refused is set if the gateway did not forward the request, so that the upstream has not
	// failed. Code is then the error_kind.
	Refused bool
}

// event returns the log message for a failure, and for a repeated one.
func (f *Failure) event(repeated bool) string {
	switch {
	case f.Refused && repeated:
		return "requests keep being refused"
	case f.Refused:
		return "request refused"
	case repeated:
		return "upstream keeps failing"
	}
	return "upstream failed"
}

// Log writes a WARN for each upstream and cause: the first failure at once, further ones
// aggregated in one line per interval.
//
// It never blocks requests: lines are put in a bounded queue, which one goroutine empties. When
// the queue is full, the failure is counted as a repeat. It is safe for concurrent use.
type Log struct {
	log   *slog.Logger
	queue chan Failure
	stop  chan struct{}
	done  chan struct{}

	mu   sync.Mutex // guards seen; held only for a lookup
	seen map[key]*repeated
}

type key struct{ upstream, code string }

// repeated counts the failures since the last line about them.
type repeated struct {
	count uint64
	last  Failure
}

// New starts the goroutine that writes; Close ends it.
func New(log *slog.Logger) *Log {
	f := &Log{
		log: log, queue: make(chan Failure, queueSize), stop: make(chan struct{}), done: make(chan struct{}),
		seen: make(map[key]*repeated),
	}
	go f.run()
	return f
}

// First reports whether a failure is to be logged now, so that the caller should collect its
// details. Otherwise it counts the failure.
func (f *Log) First(fail *Failure) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := key{fail.Upstream, fail.Code}
	if r := f.seen[k]; r != nil {
		r.count++
		r.last = *fail
		return false
	}
	if len(f.seen) >= maxCauses {
		return false
	}
	f.seen[k] = &repeated{last: *fail}
	return true
}

// Write queues the line of a failure for which First returned true.
func (f *Log) Write(fail *Failure) {
	select {
	case f.queue <- *fail:
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		if r := f.seen[key{fail.Upstream, fail.Code}]; r != nil {
			r.count++
			r.last = *fail
		}
	}
}

// Report logs a failure, or counts it.
func (f *Log) Report(fail *Failure) {
	if f.First(fail) {
		f.Write(fail)
	}
}

// run writes lines until Close.
func (f *Log) run() {
	defer close(f.done)
	sweep := time.NewTicker(interval)
	defer sweep.Stop()
	for {
		select {
		case fail := <-f.queue:
			f.log.LogAttrs(context.Background(), slog.LevelWarn, fail.event(false), fail.attrs()...)
		case <-sweep.C:
			f.logRepeats()
		case <-f.stop:
			for len(f.queue) > 0 {
				fail := <-f.queue
				f.log.LogAttrs(context.Background(), slog.LevelWarn, fail.event(false), fail.attrs()...)
			}
			f.logRepeats()
			return
		}
	}
}

// logRepeats logs how often each failure was repeated since its last line, and removes those
// without repeats, so that the next one is logged at once.
func (f *Log) logRepeats() {
	var lines []repeated
	f.mu.Lock()
	for k, r := range f.seen {
		if r.count == 0 {
			delete(f.seen, k)
			continue
		}
		lines = append(lines, *r)
		r.count = 0
	}
	f.mu.Unlock()
	for i := range lines {
		attrs := append(lines[i].last.attrs(), slog.Uint64("repeats", lines[i].count), slog.String("within", interval.String()))
		f.log.LogAttrs(context.Background(), slog.LevelWarn, lines[i].last.event(true), attrs...)
	}
}

// Close writes the queued lines. It waits at most flushTimeout for a blocked log.
func (f *Log) Close() {
	close(f.stop)
	limit := time.NewTimer(flushTimeout)
	defer limit.Stop()
	select {
	case <-f.done:
	case <-limit.C:
	}
}

func (f *Failure) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("upstream", f.Upstream), slog.String("url", f.URL)}
	if f.Status != 0 {
		attrs = append(attrs, slog.Int("status", f.Status))
	}
	if f.Refused {
		attrs = append(attrs, slog.String("error_kind", f.Code))
	}
	attrs = append(attrs, slog.String("cause", f.Cause))
	if f.Body != "" {
		attrs = append(attrs, slog.String("body", f.Body))
	}
	return append(attrs, slog.String("request_id", f.RequestID))
}
