package memory

import (
	"context"
	"fmt"
	"time"

	"svc/store"
)

var policies = &kind[store.Policy, store.Policy]{
	noun: "policy", prefix: store.PrefixPolicy, rows: func(d *tenantData) *table[store.Policy] { return &d.policies },
	object: (*store.Policy).Object, unique: true, governs: true,
	drop: func(d *tenantData, p *store.Policy) { delete(d.traces.fires, p.ID) },
	out: func(_ *tenantData, p *store.Policy) store.Policy {
		out := *p
		out.Condition = p.Condition.Clone()
		return out
	},
}

// ListPolicies returns the policies that pass the filter, newest first.
func (t *tenant) ListPolicies(ctx context.Context, f store.PolicyFilter, page store.Page) ([]store.Policy, int, error) {
	return listOf(ctx, t, policies, page, func(p *store.Policy) bool {
		return (f.Phase == "" || f.Phase == p.Phase) && (f.Enabled == nil || *f.Enabled == p.Enabled)
	})
}

// GetPolicy returns one policy.
func (t *tenant) GetPolicy(ctx context.Context, id string) (store.Policy, error) {
	return getOne(ctx, t, policies, id)
}

// CreatePolicies creates all of the policies or none.
func (t *tenant) CreatePolicies(ctx context.Context, in ...store.PolicyCreate) (list []store.Policy, err error) {
	err = t.create(ctx, func() any { return list }, func(e *engine, d *tenantData) error {
		if n := len(d.policies.rows); n+len(in) > store.MaxPolicies {
			return store.FieldError(store.Invalid, "too many policies", "name",
				fmt.Sprintf("the tenant has %d already, and may have %d: delete some that are not used", n, store.MaxPolicies))
		}
		names := policies.names(d)
		for i, c := range in {
			if err := checkName("policy", c.Name, "", names); err != nil {
				return err
			}
			names[c.Name] = fmt.Sprint("new ", i)
		}
		list = make([]store.Policy, 0, len(in))
		for _, c := range in {
			now := e.now()
			p := c.Make(e.ids.New(store.PrefixPolicy, now), now)
			list = append(list, addTo(ctx, e, d, policies, &p))
		}
		return nil
	})
	return list, err
}

// UpdatePolicy changes a policy.
func (t *tenant) UpdatePolicy(ctx context.Context, id string, up store.PolicyUpdate, check func(store.Policy) error) (store.Policy, error) {
	return updateOne(ctx, t, policies, id, func(_ *engine, d *tenantData, p *store.Policy, now time.Time) error {
		up.Apply(p, now)
		if check == nil {
			return nil
		}
		return check(policies.out(d, p))
	})
}

// DeletePolicy removes a policy and its count.
func (t *tenant) DeletePolicy(ctx context.Context, id string) error {
	return deleteOne(ctx, t, policies, id)
}
