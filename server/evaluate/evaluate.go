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
	// Logger is told what was done and what failed; nil means nobody is.
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

// run makes a pass at once and then one each interval, until ctx ends. A pass
// that fails is logged and tried again at the next.
func (w *worker) run(ctx context.Context) {
	ticker := time.NewTicker(w.Interval)
	defer ticker.Stop()
	defer w.release(ctx)
	for {
		switch err := w.step(ctx); {
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

// step makes one pass if the lease can be had. What the pass writes depends on it:
// a process that was paused does not undo what its successor did.
func (w *worker) step(ctx context.Context) error {
	if mine, err := w.acquire(ctx); err != nil || !mine {
		return err
	}
	return w.pass(store.UnderLease(ctx, w.held))
}

// acquire takes or renews the lease.
func (w *worker) acquire(ctx context.Context) (mine bool, err error) {
	l, mine, err := w.Records.AcquireLease(ctx, w.lease, w.holder, w.ttl())
	if err == nil && mine {
		w.held = l
	}
	return mine, err
}

// ttl is how long a lease is held: two intervals, so that a pass that is late
// does not lose it, and at least ten seconds.
func (w *worker) ttl() time.Duration { return max(2*w.Interval, 10*time.Second) }

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
