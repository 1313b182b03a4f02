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
)

// Bounds on one transaction. The number of rows follows the time that they take:
// a transaction is the longest that a writer waits for retention.
const (
	minRows     = 100
	maxRows     = 50_000
	defaultRows = 1000
	fastEnough  = 25 * time.Millisecond
	tooSlow     = 100 * time.Millisecond
)

// Retention removes what is too old. A pass goes on until nothing old is left, in
// short transactions with pauses of the same length between them, so that ingest
// never waits long; tenants take turns, so that the backlog of one does not delay
// the others.
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
	pending := make([]*tenantTrim, len(tenants))
	for i, info := range tenants {
		pending[i] = &tenantTrim{tenant: r.Store.Tenant(info.ID), bounds: bounds}
		pending[i].bounds.Limit = defaultRows
	}
	var failed []error
	renewed := r.Now()
	for len(pending) > 0 {
		left := pending[:0]
		for _, t := range pending {
			more, err := r.turn(ctx, t)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("tenant %s: %w", t.tenant.ID(), err))
			}
			if more && err == nil {
				left = append(left, t)
			} else {
				r.report(t)
			}
		}
		pending = left
		if r.Now().Sub(renewed) < r.ttl()/4 {
			continue
		}
		renewed = r.Now()
		if held, err := r.Store.AcquireLease(ctx, r.lease, r.holder, r.ttl()); err != nil || !held {
			return errors.Join(append(failed, err)...)
		}
	}
	return errors.Join(failed...)
}

// tenantTrim is what a pass does at one tenant.
type tenantTrim struct {
	tenant store.Tenant
	bounds store.TrimBounds
	total  store.TrimResult
}

// turn removes rows of one tenant in one transaction. Where more is left it then
// pauses for as long as the transaction took: half the time is for others.
func (r *Retention) turn(ctx context.Context, t *tenantTrim) (more bool, err error) {
	began := time.Now()
	one, err := t.tenant.Trim(ctx, t.bounds)
	if err != nil {
		return false, err
	}
	t.total.Traces += one.Traces
	t.total.Minutes += one.Minutes
	t.total.Violations += one.Violations
	t.total.Events += one.Events
	t.total.Answers += one.Answers
	if !one.More {
		return false, nil
	}
	took := time.Since(began)
	t.bounds.Limit = nextRows(t.bounds.Limit, took)
	return true, pause(ctx, took)
}

// nextRows returns how many rows of a kind the next transaction may remove when
// one of rows rows took that long.
func nextRows(rows int, took time.Duration) int {
	switch {
	case took < fastEnough:
		return min(2*rows, maxRows)
	case took > tooSlow:
		return max(rows/2, minRows)
	}
	return rows
}

func (r *Retention) report(t *tenantTrim) {
	if n := t.total; n.Traces+n.Violations+n.Events > 0 {
		r.Logger.Info("old data removed", "tenant", t.tenant.ID(), "traces", n.Traces, "minutes", n.Minutes,
			"violations", n.Violations, "events", n.Events, "answers", n.Answers)
	}
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
