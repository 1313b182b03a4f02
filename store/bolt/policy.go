package bolt

import (
	"context"
	"fmt"

	"go.etcd.io/bbolt"

	"svc/store"
)

// ListPolicies returns the policies that pass the filter, newest first.
func (t *tenant) ListPolicies(ctx context.Context, f store.PolicyFilter, page store.Page) (list []store.Policy, total int, err error) {
	err = t.view(ctx, func(d data) error {
		list, total, err = newest(d.in(inPolicies), page, func(p *store.Policy) bool {
			return (f.Phase == "" || f.Phase == p.Phase) && (f.Enabled == nil || *f.Enabled == p.Enabled)
		})
		return err
	})
	return list, total, err
}

// GetPolicy returns one policy.
func (t *tenant) GetPolicy(ctx context.Context, id string) (p store.Policy, err error) {
	err = t.view(ctx, func(d data) error {
		p, err = policyByID(d, id)
		return err
	})
	return p, err
}

func policyByID(d data, id string) (store.Policy, error) {
	return findJSON[store.Policy](d.in(inPolicies), "policy", id)
}

// CreatePolicies makes all of the policies or none.
func (t *tenant) CreatePolicies(ctx context.Context, in ...store.PolicyCreate) (list []store.Policy, err error) {
	err = t.create(ctx, func() any { return list }, func(_ *bbolt.Tx, d data) error {
		if n := d.in(inPolicies).Stats().KeyN; n+len(in) > store.MaxPolicies {
			return store.FieldError(store.Invalid, "too many policies", "name",
				fmt.Sprintf("the tenant has %d already, and may have %d: delete some that are not used", n, store.MaxPolicies))
		}
		list = make([]store.Policy, 0, len(in))
		for _, c := range in {
			now := t.s.now().UTC()
			p := store.Policy{
				ID: t.s.ids.New(store.PrefixPolicy, now), Name: c.Name, Phase: c.Phase, On: c.On,
				Condition: c.Condition, Action: c.Action, RedactionStrategy: c.RedactionStrategy,
				Enabled: c.Enabled, CreatedAt: now, UpdatedAt: now,
			}
			if p.On == "" {
				p.On = "*"
			}
			if err := claimName(d.in(inPolicyNames), "policy", "", p.Name, p.ID); err != nil {
				return err
			}
			if err := putJSON(d.in(inPolicies), p.ID, p); err != nil {
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
func (t *tenant) UpdatePolicy(ctx context.Context, id string, up store.PolicyUpdate, check func(store.Policy) error) (p store.Policy, err error) {
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		if p, err = policyByID(d, id); err != nil {
			return err
		}
		old := p.Name
		for _, f := range []struct{ to, from *string }{
			{&p.Name, up.Name}, {&p.Phase, up.Phase}, {&p.On, up.On},
			{&p.Action, up.Action}, {&p.RedactionStrategy, up.RedactionStrategy},
		} {
			if f.from != nil {
				*f.to = *f.from
			}
		}
		if up.Condition != nil {
			p.Condition = *up.Condition
		}
		if up.Enabled != nil {
			p.Enabled = *up.Enabled
		}
		if check != nil {
			if err := check(p); err != nil {
				return err
			}
		}
		if p.Name != old {
			if err := claimName(d.in(inPolicyNames), "policy", old, p.Name, id); err != nil {
				return err
			}
		}
		p.UpdatedAt = t.s.now().UTC()
		return putJSON(d.in(inPolicies), id, p)
	})
	return p, err
}

// DeletePolicy removes a policy and its count.
func (t *tenant) DeletePolicy(ctx context.Context, id string) error {
	return t.update(ctx, func(_ *bbolt.Tx, d data) error {
		p, err := policyByID(d, id)
		if err != nil {
			return err
		}
		if err := d.in(inPolicyNames).Delete([]byte(p.Name)); err != nil {
			return err
		}
		if err := d.in(inPolicyFires).Delete([]byte(id)); err != nil {
			return err
		}
		return d.in(inPolicies).Delete([]byte(id))
	})
}
