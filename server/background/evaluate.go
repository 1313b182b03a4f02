package background

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"svc/store"
)

// Records is the part of the record store that background work uses.
type Records interface {
	store.Leases
	ListTenants(ctx context.Context) ([]store.TenantInfo, error)
	Tenant(id string) store.Tenant
}

// Traces is the part of the trace store that background work uses.
type Traces interface {
	TracesOf(tenant string) store.TenantTraces
}

// EvaluatorOptions are common to the workers.
type EvaluatorOptions struct {
	// Records and Traces are the store; required.
	Records Records
	Traces  Traces
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger logs results and failures; nil discards them.
	Logger *slog.Logger
	// Interval is the time from one pass to the next; 0 means the worker's default.
	Interval time.Duration
	// PageHost is the name under which people reach the page, for links in messages; empty: there are none.
	PageHost string
}

// worker makes a pass in each interval while it holds a lease.
type worker struct {
	EvaluatorOptions
	lease  string
	holder string
	held   store.Lease
	due    time.Time // when the next pass is due
	pass   func(context.Context) error
	lost   func() // called while another process holds the lease; may be nil
}

func newWorker(o EvaluatorOptions, lease string, interval time.Duration) worker {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Interval <= 0 {
		o.Interval = interval
	}
	return worker{EvaluatorOptions: o, lease: lease, holder: rand.Text()}
}

// How long a lease is valid without a renewal, and how often it is renewed or
// requested. Another process takes over at most leaseFor + renewEvery after the holder
// stopped, even when passes are rare.
const (
	leaseFor   = 30 * time.Second
	renewEvery = 10 * time.Second
)

// run makes a pass when it gets the lease and then one each interval, until ctx ends. A
// pass that fails is logged and repeated after the interval.
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

// turn renews or requests the lease, and makes a pass when one is due: at once when the
// worker did not hold the lease before.
func (w *worker) turn(ctx context.Context) error {
	held, now := w.held.Name != "", time.Now()
	mine, err := w.acquire(ctx)
	if err != nil || !mine {
		return err
	}
	// A tick may come slightly early.
	if held && now.Before(w.due.Add(-min(w.Interval, renewEvery)/2)) {
		return nil
	}
	w.due = now.Add(w.Interval)
	return w.work(ctx)
}

// work makes a pass, and renews the lease meanwhile. Writes of the pass fail when the
// lease was lost, so a process that was paused cannot undo the work of its successor.
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
				case err != nil && ctx.Err() == nil: // the next tick tries again
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

// eachTenant calls f for each tenant, and returns all errors: the failure of one holds up no other.
func (w *worker) eachTenant(ctx context.Context, f func(store.Tenant) error) error {
	tenants, err := w.Records.ListTenants(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, info := range tenants {
		if err := f(w.Records.Tenant(info.ID)); err != nil {
			failed = append(failed, fmt.Errorf("tenant %s: %w", info.ID, err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(failed...)
}

// acquire takes or renews the lease.
func (w *worker) acquire(ctx context.Context) (mine bool, err error) {
	l, mine, err := w.Records.AcquireLease(ctx, w.lease, w.holder, leaseFor)
	if err == nil {
		w.held = l // the zero lease when another process holds it
	}
	if err == nil && !mine && w.lost != nil {
		w.lost()
	}
	return mine, err
}

// release gives up the lease, so that another process can take over at once.
func (w *worker) release(ctx context.Context) {
	if w.held.Name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := w.Records.ReleaseLease(ctx, w.held); err != nil {
		w.Logger.Warn("lease was not released; it will expire", "work", w.lease, "error", err)
	}
}
