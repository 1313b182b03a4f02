package memory

import (
	"context"
	"time"

	"svc/store"
)

var budgets = &kind[store.Budget, store.Budget]{
	noun: "budget", prefix: store.PrefixBudget, rows: func(d *tenantData) *table[store.Budget] { return &d.budgets },
	object: (*store.Budget).Object, out: (*tenantData).budgetOut, unique: true, governs: true,
}

func (d *tenantData) budgetOut(b *store.Budget) store.Budget {
	out := *b
	out.AgentName = d.agentName(b.AgentID)
	return out
}

// ListBudgets returns all budgets, newest first.
func (t *tenant) ListBudgets(ctx context.Context) ([]store.Budget, error) {
	list, _, err := listOf(ctx, t, budgets, store.Page{}, nil)
	return list, err
}

// GetBudget returns one budget.
func (t *tenant) GetBudget(ctx context.Context, id string) (store.Budget, error) {
	return getOne(ctx, t, budgets, id)
}

// CreateBudget creates a budget.
func (t *tenant) CreateBudget(ctx context.Context, in store.BudgetCreate) (store.Budget, error) {
	return createOne(ctx, t, budgets, func(_ *engine, d *tenantData, id string, now time.Time) (store.Budget, error) {
		return in.Make(id, now), d.knownAgent(in.AgentID)
	})
}

// UpdateBudget changes a budget.
func (t *tenant) UpdateBudget(ctx context.Context, id string, up store.BudgetUpdate) (store.Budget, error) {
	return updateOne(ctx, t, budgets, id, func(_ *engine, d *tenantData, b *store.Budget, now time.Time) error {
		up.Apply(b, now)
		return d.newAgent(up.AgentID)
	})
}

// DeleteBudget removes a budget.
func (t *tenant) DeleteBudget(ctx context.Context, id string) error {
	return deleteOne(ctx, t, budgets, id)
}

var slas = &kind[store.SLATarget, store.SLATarget]{
	noun: "SLA target", prefix: store.PrefixSLA, rows: func(d *tenantData) *table[store.SLATarget] { return &d.slas },
	object: (*store.SLATarget).Object, out: (*tenantData).slaOut,
}

func (d *tenantData) slaOut(s *store.SLATarget) store.SLATarget {
	out := *s
	out.AgentName = d.agentName(s.AgentID)
	out.P99LatencyMs, out.ErrorRatePercent = pointee(s.P99LatencyMs), pointee(s.ErrorRatePercent)
	return out
}

// ListSLAs returns all targets, newest first.
func (t *tenant) ListSLAs(ctx context.Context) ([]store.SLATarget, error) {
	list, _, err := listOf(ctx, t, slas, store.Page{}, nil)
	return list, err
}

// GetSLA returns one target.
func (t *tenant) GetSLA(ctx context.Context, id string) (store.SLATarget, error) {
	return getOne(ctx, t, slas, id)
}

// CreateSLA creates a target.
func (t *tenant) CreateSLA(ctx context.Context, in store.SLACreate) (store.SLATarget, error) {
	return createOne(ctx, t, slas, func(_ *engine, d *tenantData, id string, now time.Time) (store.SLATarget, error) {
		if err := checkName("SLA target", in.Name, "", nil); err != nil {
			return store.SLATarget{}, err
		}
		return in.Make(id, now), d.knownAgent(in.AgentID)
	})
}

// UpdateSLA changes a target.
func (t *tenant) UpdateSLA(ctx context.Context, id string, up store.SLAUpdate) (store.SLATarget, error) {
	return updateOne(ctx, t, slas, id, func(_ *engine, d *tenantData, s *store.SLATarget, now time.Time) error {
		up.Apply(s, now)
		return d.newAgent(up.AgentID)
	})
}

// DeleteSLA removes a target; its violations stay.
func (t *tenant) DeleteSLA(ctx context.Context, id string) error {
	return deleteOne(ctx, t, slas, id)
}

// RecordViolation stores a violation once per target, type and period.
func (t *tenant) RecordViolation(ctx context.Context, v store.SLAViolation) (created bool, err error) {
	if bad(v.Type) {
		return false, store.FieldError(store.Invalid, "violation without a type", "violationType", "is required")
	}
	err = t.write(ctx, func(e *engine, d *tenantData) error {
		if _, err := d.slas.find("SLA target", v.SLAID); err != nil {
			return err
		}
		same := d.violations.newest(func(o *store.SLAViolation) bool {
			return o.SLAID == v.SLAID && o.Type == v.Type && o.PeriodStart.Unix() == v.PeriodStart.Unix()
		})
		if len(same) > 0 {
			return nil
		}
		v.CreatedAt = e.now()
		v.ID = e.ids.New(store.PrefixViolation, v.CreatedAt)
		kept := violationOut(&v)
		d.violations.put(v.ID, &kept)
		created = true
		return nil
	})
	return created, err
}

func violationOut(v *store.SLAViolation) store.SLAViolation {
	out := *v
	out.PeriodStart, out.PeriodEnd = v.PeriodStart.UTC(), v.PeriodEnd.UTC()
	out.TargetP99Ms, out.ActualP99Ms = pointee(v.TargetP99Ms), pointee(v.ActualP99Ms)
	out.TargetErrorRate, out.ActualErrorRate = pointee(v.TargetErrorRate), pointee(v.ActualErrorRate)
	return out
}

// ListViolations returns the violations that pass the filter, newest first.
func (t *tenant) ListViolations(ctx context.Context, f store.ViolationFilter, page store.Page) (list []store.SLAViolation, total int, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		found := d.violations.newest(func(v *store.SLAViolation) bool {
			return (f.SLAID == "" || f.SLAID == v.SLAID) && (f.Since.IsZero() || !v.PeriodEnd.Before(f.Since))
		})
		list, total, err = pagedBehind(found, page, func(v *store.SLAViolation) string { return v.ID }, violationOut)
		return err
	})
	return list, total, err
}
