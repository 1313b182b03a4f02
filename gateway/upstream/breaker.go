package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"svc/gateway/base/retry"
)

// Bounded is a transport with max_in_flight and a breaker, if the configuration has them. It
// remembers whether the upstream answers.
type Bounded struct {
	Transport
	health   atomic.Int32
	name     string
	limit    int64 // 0 for none
	inFlight atomic.Int64
	breaker  *retry.Breaker // nil for none
	window   time.Duration
	opened   retry.Repeats // openings of the breaker, for the log
	log      *slog.Logger
	now      func() time.Time
}

// openedEvery is the time between two log lines about the openings of one breaker: while the
// upstream is away, each trial opens it again.
const openedEvery = time.Minute

// Health is whether an upstream answers.
type Health int32

// The values of Health: nobody has asked it yet, its last response was none of 5xx, or it failed.
const (
	HealthUnknown Health = iota
	HealthOK
	HealthFailing
)

// Bound returns the transport with the limits of the configuration.
func Bound(c Config, t Transport, log *slog.Logger, now func() time.Time) Transport {
	b := &Bounded{Transport: t, name: c.Name, limit: int64(c.MaxInFlight), log: log, now: now}
	if c.Breaker != nil && c.Breaker.FailureThreshold > 0 {
		b.breaker, b.window = retry.New(*c.Breaker), c.Breaker.OpenDuration
	}
	return b
}

// Post implements Transport. A message is in flight until the body of its response is
// closed.
func (b *Bounded) Post(ctx context.Context, r *Request) (*Response, error) {
	if b.limit == 0 && b.breaker == nil {
		return b.watch(ctx, func() (*Response, error) { return b.Transport.Post(ctx, r) })
	}
	if n := b.inFlight.Add(1); b.limit > 0 && n > b.limit {
		b.inFlight.Add(-1)
		return nil, b.refuse(ErrBusy, errMaxInFlight)
	}
	resp, err := b.watch(ctx, func() (*Response, error) { return b.Transport.Post(ctx, r) })
	if err != nil {
		b.inFlight.Add(-1)
		return nil, err
	}
	resp.Body = &flight{ReadCloser: resp.Body, count: &b.inFlight}
	return resp, nil
}

// Listen implements Transport. The stream of a session is not in flight, so only the
// breaker counts it.
func (b *Bounded) Listen(ctx context.Context, r *Request) (*Response, error) {
	return b.watch(ctx, func() (*Response, error) { return b.Transport.Listen(ctx, r) })
}

// Health reports whether the upstream answered last.
func (b *Bounded) Health() Health { return Health(b.health.Load()) }

// State returns the number of messages in flight, and whether the breaker is open or half-open.
func (b *Bounded) State() (inFlight int64, open bool) {
	return b.inFlight.Load(), b.breaker != nil && b.breaker.Open()
}

// watch sends a request if the breaker permits it, and reports the result to the
// breaker.
func (b *Bounded) watch(ctx context.Context, do func() (*Response, error)) (*Response, error) {
	if b.breaker == nil {
		resp, err := do()
		b.note(outcome(ctx, resp, err))
		return resp, err
	}
	version, ok := b.breaker.Allow(b.now())
	if !ok {
		return nil, b.refuse(ErrOpen, nil)
	}
	result := retry.Abandoned
	defer func() { // also after a panic, so that a single trial always ends
		var now time.Time // only a failure opens the breaker, from now on
		if result == retry.Failed {
			now = b.now()
		}
		if b.breaker.Report(version, result, now) {
			if n, due := b.opened.Due(now, openedEvery); due {
				b.log.Warn("upstream breaker opened: the upstream is not contacted", "upstream", b.name, "for", b.window, "times", n)
			}
		}
	}()
	resp, err := do()
	result = outcome(ctx, resp, err)
	b.note(result)
	return resp, err
}

// outcome returns what the response to a request says about the upstream.
func outcome(ctx context.Context, resp *Response, err error) retry.Outcome {
	switch {
	case err == nil && resp.Status < 500:
		return retry.Succeeded
	case err == nil:
		return retry.Failed
	case ctx.Err() != nil && !errors.Is(err, ErrTimeout):
		// The client has disconnected, which is no result.
	case retry.NoDescriptors(err):
		// The gateway failed, not the upstream.
	case errors.Is(err, ErrUnreachable), errors.Is(err, ErrTimeout):
		return retry.Failed
	}
	return retry.Abandoned
}

// note remembers an outcome.
func (b *Bounded) note(r retry.Outcome) {
	h := HealthOK
	switch r {
	case retry.Abandoned:
		return
	case retry.Failed:
		h = HealthFailing
	}
	if b.health.Load() != int32(h) { // it seldom changes, so that the cache line stays shared
		b.health.Store(int32(h))
	}
}

// refuse returns the error of a message that is not sent.
func (b *Bounded) refuse(kind, cause error) error {
	return &Error{Upstream: b.name, Op: "request", Kind: kind, Err: cause}
}

var errMaxInFlight = errors.New("max_in_flight requests are already in flight")

// flight is the body of a response, whose message is in flight until the body is closed.
type flight struct {
	io.ReadCloser
	count  *atomic.Int64
	closed atomic.Bool
}

// Close closes the body and subtracts the message from the count, once.
func (f *flight) Close() error {
	defer func() {
		if f.closed.CompareAndSwap(false, true) {
			f.count.Add(-1)
		}
	}()
	return f.ReadCloser.Close()
}

// BeforeWait is [HTTPResponse.BeforeWait].
func (f *flight) BeforeWait(before func()) {
	if w, ok := f.ReadCloser.(interface{ BeforeWait(func()) }); ok {
		w.BeforeWait(before)
	}
}
