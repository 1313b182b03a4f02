package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"svc/gateway/breaker"
	"svc/gateway/upstream"
)

// bounded is a transport with max_in_flight and a breaker.
type bounded struct {
	Transport
	name     string
	limit    int64 // 0 for none
	inFlight atomic.Int64
	breaker  *breaker.Breaker // nil for none
	window   time.Duration
	log      *slog.Logger
	now      func() time.Time
}

// Bound returns the transport with the limits of the configuration; t itself if there
// are none.
func Bound(c upstream.Config, t Transport, log *slog.Logger, now func() time.Time) Transport {
	b := &bounded{Transport: t, name: c.Name, limit: int64(c.MaxInFlight), log: log, now: now}
	if c.Breaker != nil && c.Breaker.FailureThreshold > 0 {
		b.breaker, b.window = breaker.New(*c.Breaker), c.Breaker.OpenDuration
	}
	if b.limit == 0 && b.breaker == nil {
		return t
	}
	return b
}

// Post implements Transport. A message is in flight until the body of its response is
// closed.
func (b *bounded) Post(ctx context.Context, r *Request) (*upstream.Response, error) {
	if n := b.inFlight.Add(1); b.limit > 0 && n > b.limit {
		b.inFlight.Add(-1)
		return nil, b.refuse(upstream.ErrBusy, errMaxInFlight)
	}
	resp, err := b.watch(ctx, func() (*upstream.Response, error) { return b.Transport.Post(ctx, r) })
	if err != nil {
		b.inFlight.Add(-1)
		return nil, err
	}
	resp.Body = &flight{ReadCloser: resp.Body, count: &b.inFlight}
	return resp, nil
}

// Listen implements Transport. The stream of a session is not in flight, so only the
// breaker counts it.
func (b *bounded) Listen(ctx context.Context, r *Request) (*upstream.Response, error) {
	return b.watch(ctx, func() (*upstream.Response, error) { return b.Transport.Listen(ctx, r) })
}

// Stats returns the state of the transport.
func (b *bounded) Stats() (s upstream.Stats) {
	if pooled, ok := b.Transport.(interface{ Stats() upstream.Stats }); ok {
		s = pooled.Stats()
	}
	s.InFlight, s.BreakerOpen = b.inFlight.Load(), b.breaker != nil && b.breaker.Open()
	return s
}

// watch sends a request if the breaker permits it, and reports the result to the
// breaker.
func (b *bounded) watch(ctx context.Context, do func() (*upstream.Response, error)) (*upstream.Response, error) {
	if b.breaker == nil {
		return do()
	}
	version, ok := b.breaker.Allow(b.now())
	if !ok {
		return nil, b.refuse(upstream.ErrOpen, nil)
	}
	result := breaker.Abandoned
	defer func() { // also after a panic, so that a single trial always ends
		var now time.Time // only a failure opens the breaker, from now on
		if result == breaker.Failed {
			now = b.now()
		}
		if b.breaker.Report(version, result, now) {
			b.log.Warn("upstream breaker opened: the upstream is not contacted", "upstream", b.name, "for", b.window)
		}
	}()
	resp, err := do()
	switch {
	case err == nil && resp.Status < 500:
		result = breaker.Succeeded
	case err == nil:
		result = breaker.Failed
	case ctx.Err() != nil && !errors.Is(err, upstream.ErrTimeout):
		// The client has disconnected, which is no result for the breaker.
	case errors.Is(err, upstream.ErrUnreachable), errors.Is(err, upstream.ErrTimeout):
		result = breaker.Failed
	}
	return resp, err
}

// refuse returns the error of a message that is not sent.
func (b *bounded) refuse(kind, cause error) error {
	return &upstream.Error{Upstream: b.name, Op: "request", Kind: kind, Err: cause}
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

// BeforeWait is [upstream.Response.BeforeWait].
func (f *flight) BeforeWait(before func()) {
	if w, ok := f.ReadCloser.(interface{ BeforeWait(func()) }); ok {
		w.BeforeWait(before)
	}
}
