package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"svc/store"
)

func policyOut(p *store.Policy) store.Policy {
	out := *p
	out.Condition = conditionOut(p.Condition)
	return out
}

func conditionOut(c store.PolicyCondition) store.PolicyCondition {
	c.Threshold, c.Entities = pointee(c.Threshold), slices.Clone(c.Entities)
	return c
}

func (d *tenantData) policyNames() map[string]string {
	return owners(&d.policies, func(p *store.Policy) string { return p.Name })
}

// ListPolicies returns the policies that pass the filter, newest first.
func (t *tenant) ListPolicies(ctx context.Context, f store.PolicyFilter, page store.Page) (list []store.Policy, total int, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		list, total, err = pagedBehind(d.policies.newest(func(p *store.Policy) bool {
			return (f.Phase == "" || f.Phase == p.Phase) && (f.Enabled == nil || *f.Enabled == p.Enabled)
		}), page, func(p *store.Policy) string { return p.ID }, policyOut)
		return err
	})
	return list, total, err
}

// GetPolicy returns one policy.
func (t *tenant) GetPolicy(ctx context.Context, id string) (out store.Policy, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		p, err := d.policies.find("policy", id)
		if err == nil {
			out = policyOut(p)
		}
		return err
	})
	return out, err
}

// CreatePolicies makes all of the policies or none.
func (t *tenant) CreatePolicies(ctx context.Context, in ...store.PolicyCreate) (list []store.Policy, err error) {
	err = t.create(ctx, func() any { return list }, func(e *engine, d *tenantData) error {
		if n := len(d.policies.rows); n+len(in) > store.MaxPolicies {
			return store.FieldError(store.Invalid, "too many policies", "name",
				fmt.Sprintf("the tenant has %d already, and may have %d: delete some that are not used", n, store.MaxPolicies))
		}
		names := d.policyNames()
		for i, c := range in {
			if err := checkName("policy", c.Name, "", names); err != nil {
				return err
			}
			names[c.Name] = fmt.Sprint("new ", i)
		}
		list = make([]store.Policy, 0, len(in))
		for _, c := range in {
			now := e.now()
			p := &store.Policy{ID: e.ids.New(store.PrefixPolicy, now), Name: c.Name, Phase: c.Phase, On: cmp.Or(c.On, "*"),
				Condition: conditionOut(c.Condition), Action: c.Action, RedactionStrategy: c.RedactionStrategy,
				Enabled: c.Enabled, CreatedAt: now, UpdatedAt: now}
			d.policies.put(p.ID, p)
			list = append(list, policyOut(p))
		}
		return nil
	})
	return list, err
}

// UpdatePolicy changes a policy.
func (t *tenant) UpdatePolicy(ctx context.Context, id string, up store.PolicyUpdate, check func(store.Policy) error) (out store.Policy, err error) {
	err = t.write(ctx, func(e *engine, d *tenantData) error {
		p, err := d.policies.find("policy", id)
		if err != nil {
			return err
		}
		next := policyOut(p)
		set(&next.Name, up.Name)
		set(&next.Phase, up.Phase)
		set(&next.On, up.On)
		set(&next.Action, up.Action)
		set(&next.RedactionStrategy, up.RedactionStrategy)
		set(&next.Enabled, up.Enabled)
		if up.Condition != nil {
			next.Condition = conditionOut(*up.Condition)
		}
		if check != nil {
			if err := check(policyOut(&next)); err != nil {
				return err
			}
		}
		if next.Name != p.Name {
			if err := checkName("policy", next.Name, id, d.policyNames()); err != nil {
				return err
			}
		}
		next.UpdatedAt = e.now()
		d.policies.put(id, &next)
		out = policyOut(&next)
		return nil
	})
	return out, err
}

// DeletePolicy removes a policy and its count.
func (t *tenant) DeletePolicy(ctx context.Context, id string) error {
	return t.write(ctx, func(_ *engine, d *tenantData) error {
		if _, err := d.policies.find("policy", id); err != nil {
			return err
		}
		d.policies.delete(id)
		delete(d.traces.fires, id)
		return nil
	})
}
