package evaluate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc/store"
)

// Defaults of retention.
const (
	// DefaultRetentionInterval is how often old data is looked for.
	DefaultRetentionInterval = 10 * time.Minute
	// DefaultTraceRetention is how long traces are kept when nothing else is said.
	DefaultTraceRetention = 90 * 24 * time.Hour
	// minuteRetention is how long statistics have minutes: twice the longest
	// period that is asked for by the minute. Hours are kept.
	minuteRetention = 48 * time.Hour
	// violationRetention and eventRetention bound records that are small and few.
	violationRetention = 400 * 24 * time.Hour
	eventRetention     = 90 * 24 * time.Hour
	// maxTrims bounds the transactions of one pass and tenant; the rest is left
	// to the next pass.
	maxTrims = 1000
)

// Retention removes what is too old, a bounded number of rows in one
// transaction, so that ingest never waits long for it.
type Retention struct {
	worker
	keep time.Duration
}

// NewRetention returns a Retention that keeps traces for keep, and for ever
// when it is 0. Statistics outlive the traces.
func NewRetention(o Options, keep time.Duration) *Retention {
	r := &Retention{newWorker(o, "retention", DefaultRetentionInterval), keep}
	r.pass = r.trim
	return r
}

// Run removes until ctx ends.
func (r *Retention) Run(ctx context.Context) { r.run(ctx) }

// Step makes one pass, unless another process holds the work.
func (r *Retention) Step(ctx context.Context) error { return r.step(ctx) }

func (r *Retention) trim(ctx context.Context) error {
	now := r.Now().UTC()
	bounds := store.TrimBounds{
		Minutes:    now.Add(-minuteRetention),
		Violations: now.Add(-violationRetention),
		Events:     now.Add(-eventRetention),
	}
	if r.keep > 0 {
		bounds.Traces = now.Add(-r.keep)
	}
	tenants, err := r.Store.ListTenants(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, info := range tenants {
		if err := r.tenant(ctx, r.Store.Tenant(info.ID), bounds); err != nil {
			failed = append(failed, fmt.Errorf("tenant %s: %w", info.ID, err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(failed...)
}

// tenant trims one tenant, giving way to other work between transactions.
func (r *Retention) tenant(ctx context.Context, t store.Tenant, bounds store.TrimBounds) error {
	var total store.TrimResult
	for range maxTrims {
		began := time.Now()
		one, err := t.Trim(ctx, bounds)
		if err != nil {
			return err
		}
		total.Traces += one.Traces
		total.Minutes += one.Minutes
		total.Violations += one.Violations
		total.Events += one.Events
		total.Answers += one.Answers
		if !one.More {
			break
		}
		// Half the time is for others.
		if err := pause(ctx, time.Since(began)); err != nil {
			return err
		}
		if held, err := r.Store.AcquireLease(ctx, r.lease, r.holder, r.ttl()); err != nil || !held {
			return err
		}
	}
	if total.Traces+total.Violations+total.Events > 0 {
		r.Logger.Info("old data removed", "tenant", t.ID(), "traces", total.Traces, "minutes", total.Minutes,
			"violations", total.Violations, "events", total.Events, "answers", total.Answers)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
