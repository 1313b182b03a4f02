package record

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"svc/store"
)

// policies implements the kind of policies.
var policies = &kind[store.Policy]{
	noun: "policy", prefix: store.PrefixPolicy, rows: PolicyRows, names: policyNames, object: (*store.Policy).Object, governs: true,
	drop: func(_ context.Context, t *Tenant, tx Tx, p *store.Policy) error { return t.e.ForgetPolicy(tx, p.ID) },
	revision: func(p *store.Policy) *int64 {
		if !p.Enabled {
			return nil
		}
		return &p.Revision
	},
}

// ListPolicies returns the policies that pass the filter, newest first.
func (t *Tenant) ListPolicies(ctx context.Context, f store.PolicyFilter, page store.Page) ([]store.Policy, int, error) {
	var having [][]byte
	if f.Phase != "" {
		having = append(having, field("Phase", f.Phase))
	}
	if f.Enabled != nil {
		having = append(having, field("Enabled", *f.Enabled))
	}
	if having == nil {
		return listOf(ctx, t, policies, page, nil)
	}
	return listOf(ctx, t, policies, page, func(p *store.Policy) bool {
		return (f.Phase == "" || f.Phase == p.Phase) && (f.Enabled == nil || *f.Enabled == p.Enabled)
	}, having...)
}

// GetPolicy returns one policy.
func (t *Tenant) GetPolicy(ctx context.Context, id string) (store.Policy, error) {
	return getOne(ctx, t, policies, id)
}

// CreatePolicies creates all of the policies or none.
func (t *Tenant) CreatePolicies(ctx context.Context, in ...store.PolicyCreate) (list []store.Policy, err error) {
	err = t.create(ctx, func() any { return list }, func(tx Tx) error {
		n, err := tx.Count(PolicyRows, Range{})
		if err == nil && n+len(in) > store.MaxPolicies {
			err = store.FieldError(store.Invalid, "too many policies", "name",
				fmt.Sprintf("the tenant has %d already, and may have %d: delete some that are not used", n, store.MaxPolicies))
		}
		if err != nil {
			return err
		}
		names := make([][]byte, len(in))
		for i := range in {
			names[i] = []byte(in[i].Name)
		}
		if _, err := tx.Many(policyNames, names); err != nil { // the engine keeps what it has read
			return err
		}
		list = make([]store.Policy, 0, len(in))
		for _, c := range in {
			now := t.e.Now()
			p := c.Make(t.e.NewID(store.PrefixPolicy, now), now)
			if err := replace(ctx, t, policies, tx, nil, &p, nil); err != nil {
				return err
			}
			list = append(list, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// UpdatePolicy changes a policy.
func (t *Tenant) UpdatePolicy(ctx context.Context, id string, up store.PolicyUpdate, check func(store.Policy) error) (store.Policy, error) {
	return updateOne(ctx, t, policies, id, func(_ Tx, p *store.Policy, now time.Time) error {
		up.Apply(p, now)
		if check == nil {
			return nil
		}
		shown := *p
		shown.Condition = p.Condition.Clone()
		return check(shown)
	})
}

// DeletePolicy removes a policy and its count.
func (t *Tenant) DeletePolicy(ctx context.Context, id string) error {
	return deleteOne(ctx, t, policies, id)
}

// budgets implements the kind of budgets.
var budgets = &kind[store.Budget]{
	noun: "budget", prefix: store.PrefixBudget, rows: budgetRows, names: budgetNames, object: (*store.Budget).Object, governs: true,
	items: func(tx Tx, list []store.Budget) error {
		for i := range list {
			if list[i].TeamID == "" {
				continue
			}
			team, _, err := get[store.Team](tx, TeamRows, []byte(list[i].TeamID))
			if list[i].TeamName = team.Name; err != nil {
				return err
			}
		}
		return nameAgents(tx, list, func(b *store.Budget) (string, *string) { return b.AgentID, &b.AgentName })
	},
	stored: func(b store.Budget) store.Budget {
		b.AgentName, b.TeamName = "", ""
		return b
	},
}

// ListBudgets returns all budgets, newest first.
func (t *Tenant) ListBudgets(ctx context.Context) ([]store.Budget, error) {
	list, _, err := listOf(ctx, t, budgets, store.Page{}, nil)
	return list, err
}

// GetBudget returns one budget.
func (t *Tenant) GetBudget(ctx context.Context, id string) (store.Budget, error) {
	return getOne(ctx, t, budgets, id)
}

// CreateBudget creates a budget.
func (t *Tenant) CreateBudget(ctx context.Context, in store.BudgetCreate) (store.Budget, error) {
	return createOne(ctx, t, budgets, func(tx Tx, id string, now time.Time) (store.Budget, error) {
		return in.Make(id, now), knownPayer(tx, in.Payer)
	})
}

// UpdateBudget changes a budget.
func (t *Tenant) UpdateBudget(ctx context.Context, id string, up store.BudgetUpdate) (store.Budget, error) {
	return updateOne(ctx, t, budgets, id, func(tx Tx, b *store.Budget, now time.Time) error {
		before := b.Payer
		if up.Apply(b, now); b.Payer == before { // its agent may have been deleted
			return nil
		}
		return knownPayer(tx, b.Payer)
	})
}

// knownPayer rejects a payer that its scope does not allow or that does not exist.
func knownPayer(tx Tx, p store.Payer) error {
	err := p.Check()
	if err == nil && p.AgentID != "" {
		err = knownAgent(tx, p.AgentID)
	}
	if err == nil {
		err = knownTeam(tx, p.TeamID)
	}
	return err
}

// DeleteBudget removes a budget.
func (t *Tenant) DeleteBudget(ctx context.Context, id string) error {
	return deleteOne(ctx, t, budgets, id)
}

// slas implements the kind of SLA targets, whose names need not be unique.
var slas = &kind[store.SLATarget]{
	noun: "SLA target", prefix: store.PrefixSLA, rows: slaRows, object: (*store.SLATarget).Object,
	items: func(tx Tx, list []store.SLATarget) error {
		return nameAgents(tx, list, func(s *store.SLATarget) (string, *string) { return s.AgentID, &s.AgentName })
	},
	stored: func(s store.SLATarget) store.SLATarget {
		s.AgentName = ""
		return s
	},
}

// ListSLAs returns all targets, newest first.
func (t *Tenant) ListSLAs(ctx context.Context) ([]store.SLATarget, error) {
	list, _, err := listOf(ctx, t, slas, store.Page{}, nil)
	return list, err
}

// GetSLA returns one target.
func (t *Tenant) GetSLA(ctx context.Context, id string) (store.SLATarget, error) {
	return getOne(ctx, t, slas, id)
}

// CreateSLA creates a target.
func (t *Tenant) CreateSLA(ctx context.Context, in store.SLACreate) (store.SLATarget, error) {
	return createOne(ctx, t, slas, func(tx Tx, id string, now time.Time) (store.SLATarget, error) {
		if err := checkName("SLA target", in.Name); err != nil {
			return store.SLATarget{}, err
		}
		return in.Make(id, now), knownAgent(tx, in.AgentID)
	})
}

// UpdateSLA changes a target.
func (t *Tenant) UpdateSLA(ctx context.Context, id string, up store.SLAUpdate) (store.SLATarget, error) {
	return updateOne(ctx, t, slas, id, func(tx Tx, s *store.SLATarget, now time.Time) error {
		up.Apply(s, now)
		return newAgent(tx, up.AgentID)
	})
}

// DeleteSLA removes a target; its violations stay.
func (t *Tenant) DeleteSLA(ctx context.Context, id string) error {
	return deleteOne(ctx, t, slas, id)
}

func violationKey(v *store.SLAViolation) []byte {
	return joined(v.SLAID, v.Type, strconv.FormatInt(v.PeriodStart.Unix(), 10))
}

// RecordViolation stores a violation once per target, type and period.
func (t *Tenant) RecordViolation(ctx context.Context, v store.SLAViolation) (created bool, err error) {
	if bad(v.Type) {
		return false, store.FieldError(store.Invalid, "violation without a type", "violationType", "is required")
	}
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		created = false
		target, err := tx.Get(slaRows, []byte(v.SLAID))
		if err == nil && target == nil {
			err = store.Missing(slas.noun)
		}
		if err != nil {
			return err
		}
		key := violationKey(&v)
		known, err := tx.Get(violationKeys, key)
		if err != nil || known != nil {
			return err
		}
		created = true
		v.CreatedAt = t.e.Now()
		v.ID = t.e.NewID(store.PrefixViolation, v.CreatedAt)
		v.PeriodStart, v.PeriodEnd = v.PeriodStart.UTC(), v.PeriodEnd.UTC()
		if err := tx.Put(violationKeys, key, []byte(v.ID)); err != nil {
			return err
		}
		return put(tx, violations, []byte(v.ID), v)
	})
	return created && err == nil, err
}

// ListViolations returns the violations that pass the filter, newest first.
func (t *Tenant) ListViolations(ctx context.Context, f store.ViolationFilter, page store.Page) (list []store.SLAViolation, total int, err error) {
	var keep func(*store.SLAViolation) bool
	if !f.Since.IsZero() {
		keep = func(v *store.SLAViolation) bool { return !v.PeriodEnd.Before(f.Since) }
	}
	var having [][]byte
	if f.SLAID != "" {
		having = append(having, field("SLAID", f.SLAID)) // rows of violations are flat
	}
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		list, total, err = pageOf(tx, violations, page, keep, having...)
		return err
	})
	return list, total, err
}
