// Package evaluate is the background work of the control plane: the SLA
// evaluator, which writes violations, and retention, which removes what is too
// old. It owns when that is done and what counts as a breach; it leaves
// statistics, storage and leases to the store.
//
// Each worker is a value whose Run blocks until its context ends. Of several
// processes on one store the holder of a lease does the work; a lease outlives
// a crash by its time to live and no longer. What was done is remembered in
// the store, so a restart neither repeats nor skips.
package evaluate

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"svc/store"
)

// Records is what background work needs of the records.
type Records interface {
	store.Leases
	ListTenants(ctx context.Context) ([]store.TenantInfo, error)
	Tenant(id string) store.Tenant
}

// Traces is what it needs of the traces.
type Traces interface {
	TracesOf(tenant string) store.TenantTraces
}

// Options are common to the workers.
type Options struct {
	// Records and Traces are worked on; required.
	Records Records
	Traces  Traces
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger receives what was done and what failed; nil discards it.
	Logger *slog.Logger
	// Interval is the time from one pass to the next; 0 means the worker's default.
	Interval time.Duration
}

// worker runs a pass at intervals while it holds a lease.
type worker struct {
	Options
	lease  string
	holder string
	held   store.Lease
	due    time.Time // when the next pass of a holder is due
	pass   func(context.Context) error
}

func newWorker(o Options, lease string, interval time.Duration) worker {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Interval <= 0 {
		o.Interval = interval
	}
	return worker{Options: o, lease: lease, holder: rand.Text()}
}

// How long a lease is held without being renewed, and how often it is renewed or asked
// for: another process takes the work over at most leaseFor + renewEvery after its
// holder is gone (decision CP19), however seldom there is work.
const (
	leaseFor   = 30 * time.Second
	renewEvery = 10 * time.Second
)

// run makes a pass when it gets the lease and then one each interval, until ctx ends. A
// pass that fails is logged and tried again at the next.
func (w *worker) run(ctx context.Context) {
	ticker := time.NewTicker(min(w.Interval, renewEvery))
	defer ticker.Stop()
	defer w.release(ctx)
	for {
		switch err := w.turn(ctx); {
		case errors.Is(err, store.ErrLeaseLost) && ctx.Err() == nil:
			w.Logger.Warn("background work was taken over by another process", "work", w.lease)
		case err != nil && ctx.Err() == nil:
			w.Logger.Error("background work failed", "work", w.lease, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// turn renews the lease or asks for it, and makes a pass when one is due: at once for a
// worker that did not hold the lease before.
func (w *worker) turn(ctx context.Context) error {
	held, now := w.held.Name != "", time.Now()
	mine, err := w.acquire(ctx)
	if err != nil || !mine {
		return err
	}
	// A tick may be a little early against the one before.
	if held && now.Before(w.due.Add(-min(w.Interval, renewEvery)/2)) {
		return nil
	}
	w.due = now.Add(w.Interval)
	return w.work(ctx)
}

// step makes one pass if the lease can be had.
func (w *worker) step(ctx context.Context) error {
	if mine, err := w.acquire(ctx); err != nil || !mine {
		return err
	}
	return w.work(ctx)
}

// work makes a pass, and renews the lease while it lasts. What the pass writes depends
// on the lease: a process that was paused does not undo what its successor did.
func (w *worker) work(ctx context.Context) error {
	pass, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	ended := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() {
		ticker := time.NewTicker(renewEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
				_, mine, err := w.Records.AcquireLease(ctx, w.lease, w.holder, leaseFor)
				switch {
				case err != nil && ctx.Err() == nil: // it is tried again
					w.Logger.Warn("a lease was not renewed", "work", w.lease, "error", err)
				case err == nil && !mine:
					lost(store.ErrLeaseLost)
				}
			}
		}
	})
	defer renewing.Wait()
	defer close(ended)
	err := w.pass(store.UnderLease(pass, w.held))
	if context.Cause(pass) == store.ErrLeaseLost {
		return store.ErrLeaseLost
	}
	return err
}

// acquire takes or renews the lease.
func (w *worker) acquire(ctx context.Context) (mine bool, err error) {
	l, mine, err := w.Records.AcquireLease(ctx, w.lease, w.holder, leaseFor)
	if err == nil {
		w.held = l // the zero lease where it is another holder's
	}
	return mine, err
}

// release gives the lease back, so that another process can go on at once.
func (w *worker) release(ctx context.Context) {
	if w.held.Name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := w.Records.ReleaseLease(ctx, w.held); err != nil {
		w.Logger.Warn("lease was not released; it will run out", "work", w.lease, "error", err)
	}
}
