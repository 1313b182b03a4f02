package background

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"svc/gateway/base/retry"
	"svc/store"
)

// Defaults of retention.
const (
	// defaultRetentionInterval is the interval between two passes.
	defaultRetentionInterval = 10 * time.Minute
	// defaultTraceRetention is how long traces are kept by default.
	defaultTraceRetention = 90 * 24 * time.Hour
	// DefaultAuditRetention is how long the audit events of administrators' changes
	// are kept by default.
	DefaultAuditRetention = 400 * 24 * time.Hour
	// minuteRetention is how long statistics by the minute are kept: twice the longest
	// period that queries read by the minute. Statistics by the hour are always kept.
	minuteRetention = 48 * time.Hour
	// violationRetention and eventRetention apply to records that are few and small.
	violationRetention = 400 * 24 * time.Hour
	eventRetention     = 90 * 24 * time.Hour
	// approvalRetention and argumentRetention apply from the end of an approval on. Arguments
	// are the texts of calls, which nothing else of the store has.
	approvalRetention = 90 * 24 * time.Hour
	argumentRetention = 7 * 24 * time.Hour
	// deliveryRetention is how long messages to webhooks are kept; those that wait too.
	deliveryRetention = 7 * 24 * time.Hour
)

// turnBudget is the time for the traces of one tenant before the next tenant's turn.
const turnBudget = 25 * time.Millisecond

// Retention removes old data. A pass continues until nothing old is left, in short
// transactions with pauses of the same length between them, so that ingest never waits
// long. Tenants take turns, so that the backlog of one does not delay the others. A clock
// that jumped by more than a day is followed slowly: see passage.
type Retention struct {
	worker
	keep   time.Duration
	events time.Duration // for audit events of administrators; 0: forever
	clock  passage
	traces atomic.Uint64 // removed since the start
}

// NewRetention returns a Retention that keeps traces for keep, or forever when keep is
// 0. Statistics are kept longer than traces.
func NewRetention(o EvaluatorOptions, keep time.Duration) *Retention {
	r := &Retention{worker: newWorker(o, "retention", defaultRetentionInterval), keep: keep, events: DefaultAuditRetention}
	r.clock.running, r.clock.started = time.Now, r.Now().UTC()
	r.pass, r.lost = r.trim, r.clock.forget
	return r
}

// KeepAuditEvents sets how long the audit events of administrators' changes are kept;
// 0 means forever.
func (r *Retention) KeepAuditEvents(keep time.Duration) { r.events = keep }

// RemovedTraces returns the number of traces that were removed since the start.
func (r *Retention) RemovedTraces() uint64 { return r.traces.Load() }

// Run removes old data until ctx ends.
func (r *Retention) Run(ctx context.Context) { r.run(ctx) }

func (r *Retention) trim(ctx context.Context) error {
	now, err := r.time(ctx)
	if err != nil {
		return err
	}
	records := store.RetentionBounds{
		Violations: now.Add(-violationRetention), Events: now.Add(-eventRetention), Answers: now, Deliveries: now.Add(-deliveryRetention), Gateways: now.Add(-store.GatewayKept),
		Approvals: now.Add(-approvalRetention), ApprovalArguments: now.Add(-argumentRetention),
	}
	if r.events > 0 {
		records.AuditEvents = now.Add(-r.events)
	}
	traces := store.ExpireBounds{Minutes: now.Add(-minuteRetention), Budget: turnBudget}
	if r.keep > 0 {
		traces.Traces = now.Add(-r.keep)
	}
	tenants, err := r.Records.ListTenants(ctx)
	if err != nil {
		return err
	}
	pending := make([]*tenantTrim, len(tenants))
	for i, info := range tenants {
		pending[i] = &tenantTrim{tenant: r.Records.Tenant(info.ID), traces: r.Traces.TracesOf(info.ID), trim: &records, expire: &traces}
	}
	var failed []error
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
	}
	return errors.Join(failed...)
}

// tenantTrim is the work of a pass at one tenant.
type tenantTrim struct {
	tenant store.Tenant
	traces store.TenantTraces
	// the cutoffs of the remaining work; nil when it is done
	trim   *store.RetentionBounds
	expire *store.ExpireBounds

	trimmed store.RetentionResult
	expired store.Expired
}

// turn removes a part of a tenant's old data. When more is left, it then pauses for as
// long as that took, so that other transactions have half of the time.
func (r *Retention) turn(ctx context.Context, t *tenantTrim) (more bool, err error) {
	began, before := time.Now(), t.expired.Traces
	err = errors.Join(t.trimRecords(ctx), t.expireTraces(ctx))
	r.traces.Add(uint64(t.expired.Traces - before))
	if err != nil {
		return false, err
	}
	if t.trim == nil && t.expire == nil {
		return false, nil
	}
	retry.Wait(ctx, time.Since(began))
	return true, ctx.Err()
}

func (t *tenantTrim) trimRecords(ctx context.Context) error {
	if t.trim == nil {
		return nil
	}
	one, err := t.tenant.ApplyRetention(ctx, *t.trim)
	if err != nil {
		return err
	}
	t.trimmed.Violations += one.Violations
	t.trimmed.Events += one.Events
	t.trimmed.Answers += one.Answers
	t.trimmed.AuditEvents += one.AuditEvents
	t.trimmed.Approvals += one.Approvals
	t.trimmed.Deliveries += one.Deliveries
	t.trimmed.Gateways += one.Gateways
	if !one.More {
		t.trim = nil
	}
	return nil
}

func (t *tenantTrim) expireTraces(ctx context.Context) error {
	if t.expire == nil {
		return nil
	}
	one, err := t.traces.Expire(ctx, *t.expire)
	if err != nil {
		return err
	}
	t.expired.Traces += one.Traces
	t.expired.Minutes += one.Minutes
	if !one.More {
		t.expire = nil
	}
	return nil
}

func (r *Retention) report(t *tenantTrim) {
	if t.expired.Traces+t.trimmed.Violations+t.trimmed.Events+t.trimmed.AuditEvents+t.trimmed.Approvals+t.trimmed.Deliveries+t.trimmed.Gateways > 0 {
		r.Logger.Info("old data removed", "tenant", t.tenant.ID(), "traces", t.expired.Traces, "minutes", t.expired.Minutes,
			"violations", t.trimmed.Violations, "events", t.trimmed.Events, "answers", t.trimmed.Answers, "audit_events", t.trimmed.AuditEvents,
			"approvals", t.trimmed.Approvals, "deliveries", t.trimmed.Deliveries, "gateways", t.trimmed.Gateways)
	}
}
