package request

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// failuresInterval is the time between two lines for one upstream and cause.
	failuresInterval = time.Minute
	// maxCauses bounds the number of causes that are distinguished at one time.
	maxCauses = 1024
	// maxStrangers bounds the addresses that are named at one time because they are not
	// authenticated: anybody can send such requests, and their audit lines have all of them.
	maxStrangers = 16
	// maxNamed bounds the descriptions of one cause that are logged at once in an interval: a second
	// reason of the same class is news, and a description may differ each time.
	maxNamed = 3
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
	// Dropped is set if the gateway removed a header field of the request, and sent the rest.
	Dropped bool
	// Address is set, and Upstream is not, if the caller was not authenticated: its address, or the
	// network that is counted as one. KeyID is the id in the key that it presented, if it has one.
	Address, KeyID string
}

// event returns the log message for a failure, and for a repeated one.
func (f *Failure) event(repeated bool) string {
	switch {
	case f.Address != "" && repeated:
		return "caller is still not authenticated"
	case f.Address != "":
		return "caller is not authenticated"
	case f.Dropped && repeated:
		return "header fields keep being removed"
	case f.Dropped:
		return "header field removed"
	case f.Refused && repeated:
		return "requests keep being refused"
	case f.Refused:
		return "request refused"
	case repeated:
		return "upstream keeps failing"
	}
	return "upstream failed"
}

// Log writes a WARN for each upstream and cause: the first failure at once, and the first with
// another description; further ones aggregated in one line per interval.
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
	max  int // of seen
}

type key struct{ upstream, address, code string }

func (f *Failure) key() key { return key{f.Upstream, f.Address, f.Code} }

// repeated counts the failures since the last line about them.
type repeated struct {
	count uint64
	last  Failure
	named []string // descriptions that were logged at once; at most maxNamed
}

// NewFailures starts the goroutine that writes; Close ends it.
func NewFailures(log *slog.Logger) *Log { return newFailures(log, maxCauses) }

// NewStrangers is NewFailures for callers that are not authenticated. It is a log of its own, so
// that a flood of them hides no failure of an upstream.
func NewStrangers(log *slog.Logger) *Log { return newFailures(log, maxStrangers) }

func newFailures(log *slog.Logger, most int) *Log {
	f := &Log{
		log: log, queue: make(chan Failure, queueSize), stop: make(chan struct{}), done: make(chan struct{}),
		seen: make(map[key]*repeated), max: most,
	}
	go f.run()
	return f
}

// First reports whether a failure is to be logged now, so that the caller should collect its
// details. Otherwise it counts the failure.
func (f *Log) First(fail *Failure) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := fail.key()
	if r := f.seen[k]; r != nil {
		r.last = *fail
		if fail.Address == "" && len(r.named) < maxNamed && !slices.Contains(r.named, fail.Cause) {
			r.named = append(r.named, fail.Cause)
			return true
		}
		r.count++
		return false
	}
	if len(f.seen) >= f.max {
		return false
	}
	f.seen[k] = &repeated{last: *fail, named: []string{fail.Cause}}
	return true
}

// Write queues the line of a failure for which First returned true.
func (f *Log) Write(fail *Failure) {
	select {
	case f.queue <- *fail:
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		if r := f.seen[fail.key()]; r != nil {
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
	sweep := time.NewTicker(failuresInterval)
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
		r.count, r.named = 0, []string{r.last.Cause}
	}
	f.mu.Unlock()
	for i := range lines {
		attrs := append(lines[i].last.attrs(), slog.Uint64("repeats", lines[i].count), slog.String("within", failuresInterval.String()))
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
	if f.Address != "" {
		return []slog.Attr{slog.String("address", f.Address), slog.String("key_id", f.KeyID), slog.String("reason", f.Cause), slog.String("request_id", f.RequestID)}
	}
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
