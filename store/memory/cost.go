package memory

import (
	"context"

	"svc/store"
)

func (d *tenantData) budgetNames() map[string]string {
	return owners(&d.budgets, func(b *store.Budget) string { return b.Name })
}

func (d *tenantData) budgetOut(b *store.Budget) store.Budget {
	out := *b
	out.AgentName = d.agentName(b.AgentID)
	return out
}

// ListBudgets returns all budgets, newest first.
func (t *tenant) ListBudgets(ctx context.Context) (list []store.Budget, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		list = each(d.budgets.newest(nil), d.budgetOut)
		return nil
	})
	return list, err
}

// GetBudget returns one budget.
func (t *tenant) GetBudget(ctx context.Context, id string) (out store.Budget, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		b, err := d.budgets.find("budget", id)
		if err == nil {
			out = d.budgetOut(b)
		}
		return err
	})
	return out, err
}

// CreateBudget makes a budget.
func (t *tenant) CreateBudget(ctx context.Context, in store.BudgetCreate) (out store.Budget, err error) {
	err = t.create(ctx, func() any { return out }, func(e *engine, d *tenantData) error {
		if err := d.knownAgent(in.AgentID); err != nil {
			return err
		}
		if err := checkName("budget", in.Name, "", d.budgetNames()); err != nil {
			return err
		}
		now := e.now()
		b := &store.Budget{ID: e.ids.New(store.PrefixBudget, now), Name: in.Name, AgentID: in.AgentID,
			Period: in.Period, Limit: in.Limit, CreatedAt: now, UpdatedAt: now}
		d.budgets.put(b.ID, b)
		out = d.budgetOut(b)
		return nil
	})
	return out, err
}

// UpdateBudget changes a budget.
func (t *tenant) UpdateBudget(ctx context.Context, id string, up store.BudgetUpdate) (out store.Budget, err error) {
	err = t.write(ctx, func(e *engine, d *tenantData) error {
		b, err := d.budgets.find("budget", id)
		if err != nil {
			return err
		}
		if up.Name != nil {
			if err := checkName("budget", *up.Name, id, d.budgetNames()); err != nil {
				return err
			}
		}
		if up.AgentID != nil {
			if err := d.knownAgent(*up.AgentID); err != nil {
				return err
			}
		}
		set(&b.Name, up.Name)
		set(&b.AgentID, up.AgentID)
		set(&b.Period, up.Period)
		set(&b.Limit, up.Limit)
		b.UpdatedAt = e.now()
		out = d.budgetOut(b)
		return nil
	})
	return out, err
}

// DeleteBudget removes a budget.
func (t *tenant) DeleteBudget(ctx context.Context, id string) error {
	return t.write(ctx, func(_ *engine, d *tenantData) error {
		if _, err := d.budgets.find("budget", id); err != nil {
			return err
		}
		d.budgets.delete(id)
		return nil
	})
}

func (d *tenantData) slaOut(s *store.SLATarget) store.SLATarget {
	out := *s
	out.AgentName = d.agentName(s.AgentID)
	out.P99LatencyMs, out.ErrorRatePercent = pointee(s.P99LatencyMs), pointee(s.ErrorRatePercent)
	return out
}

// ListSLAs returns all targets, newest first.
func (t *tenant) ListSLAs(ctx context.Context) (list []store.SLATarget, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		list = each(d.slas.newest(nil), d.slaOut)
		return nil
	})
	return list, err
}

// GetSLA returns one target.
func (t *tenant) GetSLA(ctx context.Context, id string) (out store.SLATarget, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		s, err := d.slas.find("SLA target", id)
		if err == nil {
			out = d.slaOut(s)
		}
		return err
	})
	return out, err
}

// CreateSLA makes a target.
func (t *tenant) CreateSLA(ctx context.Context, in store.SLACreate) (out store.SLATarget, err error) {
	err = t.create(ctx, func() any { return out }, func(e *engine, d *tenantData) error {
		if err := checkName("SLA target", in.Name, "", nil); err != nil {
			return err
		}
		if err := d.knownAgent(in.AgentID); err != nil {
			return err
		}
		now := e.now()
		s := &store.SLATarget{ID: e.ids.New(store.PrefixSLA, now), Name: in.Name, AgentID: in.AgentID,
			P99LatencyMs: pointee(in.P99LatencyMs), ErrorRatePercent: pointee(in.ErrorRatePercent),
			EvaluationPeriod: in.EvaluationPeriod, CreatedAt: now, UpdatedAt: now}
		d.slas.put(s.ID, s)
		out = d.slaOut(s)
		return nil
	})
	return out, err
}

// UpdateSLA changes a target.
func (t *tenant) UpdateSLA(ctx context.Context, id string, up store.SLAUpdate) (out store.SLATarget, err error) {
	err = t.write(ctx, func(e *engine, d *tenantData) error {
		s, err := d.slas.find("SLA target", id)
		if err != nil {
			return err
		}
		if up.Name != nil {
			if err := checkName("SLA target", *up.Name, id, nil); err != nil {
				return err
			}
		}
		if up.AgentID != nil {
			if err := d.knownAgent(*up.AgentID); err != nil {
				return err
			}
		}
		set(&s.Name, up.Name)
		set(&s.AgentID, up.AgentID)
		set(&s.EvaluationPeriod, up.EvaluationPeriod)
		if up.P99LatencyMs != nil {
			s.P99LatencyMs = pointee(up.P99LatencyMs)
		}
		if up.ErrorRatePercent != nil {
			s.ErrorRatePercent = pointee(up.ErrorRatePercent)
		}
		s.UpdatedAt = e.now()
		out = d.slaOut(s)
		return nil
	})
	return out, err
}

// DeleteSLA removes a target; its violations stay.
func (t *tenant) DeleteSLA(ctx context.Context, id string) error {
	return t.write(ctx, func(_ *engine, d *tenantData) error {
		if _, err := d.slas.find("SLA target", id); err != nil {
			return err
		}
		d.slas.delete(id)
		return nil
	})
}

// RecordViolation keeps a violation once per target, type and period.
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
