package background

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"svc/gateway/base/retry"
	"svc/store"
)

// Store is the store that is written to: a named time, at most once per interval.
type Store interface {
	SetWatermark(ctx context.Context, name string, at time.Time) error
}

// Defaults of Options. A store that hangs is detected within their sum.
const (
	defaultInterval = 5 * time.Second
	defaultPatience = 8 * time.Second
)

// ReadinessOptions configure a [Prober].
type ReadinessOptions struct {
	Store  Store
	Logger *slog.Logger     // nil: no logging
	Now    func() time.Time // time.Now when nil
	// Interval is the time between two writes, Patience the longest duration of a
	// write; 0 means the default.
	Interval, Patience time.Duration
}

// Prober writes to a store periodically. It is safe for concurrent use.
type Prober struct {
	o      ReadinessOptions
	failed atomic.Pointer[error]
}

// New returns a Prober. It reports no error until a write fails.
func New(o ReadinessOptions) *Prober {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Interval <= 0 {
		o.Interval = defaultInterval
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	return &Prober{o: o}
}

// Err returns the reason why the store currently takes no writes; nil while it does.
func (p *Prober) Err() error {
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Run writes until ctx ends. When a write hangs, no other write begins until it
// returns, and Err reports it.
func (p *Prober) Run(ctx context.Context) {
	for {
		done := make(chan error, 1)
		go func() {
			attempt, cancel := context.WithTimeout(ctx, p.o.Patience)
			defer cancel()
			done <- p.o.Store.SetWatermark(attempt, store.MarkWritten, p.o.Now())
		}()
		if !p.await(ctx, done) || !retry.Wait(ctx, p.o.Interval) {
			return
		}
	}
}

// await waits for the end of a write. It returns false when ctx has ended.
func (p *Prober) await(ctx context.Context, done <-chan error) bool {
	patience := time.NewTimer(p.o.Patience)
	defer patience.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-patience.C:
			p.set(fmt.Errorf("a write has not ended after %s: the disk or the network of the store hangs", p.o.Patience))
		case err := <-done:
			if err != nil && ctx.Err() != nil {
				return false
			}
			p.set(err)
			return true
		}
	}
}

// set stores the result of a write, and logs when it changes.
func (p *Prober) set(err error) {
	was := p.Err()
	if err == nil {
		p.failed.Store(nil)
		if was != nil {
			p.o.Logger.Info("the store takes writes again")
		}
		return
	}
	p.failed.Store(&err)
	if was == nil || was.Error() != err.Error() {
		p.o.Logger.Error("the store takes no writes; /readyz is 503", "error", err)
	}
}
