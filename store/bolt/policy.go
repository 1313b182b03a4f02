package bolt

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// policies implements the kind of policies.
var policies = &kind[store.Policy]{
	noun: "policy", prefix: store.PrefixPolicy, rows: inPolicies, names: inPolicyNames, object: (*store.Policy).Object, governs: true,
	drop: func(d data, p *store.Policy) error { return d.in(inPolicyFires).Delete([]byte(p.ID)) },
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
	err = t.create(ctx, func() any { return list }, func(_ *bbolt.Tx, d data) error {
		if n := d.in(inPolicies).Stats().KeyN; n+len(in) > store.MaxPolicies {
			return store.FieldError(store.Invalid, "too many policies", "name",
				fmt.Sprintf("the tenant has %d already, and may have %d: delete some that are not used", n, store.MaxPolicies))
		}
		list = make([]store.Policy, 0, len(in))
		for _, c := range in {
			now := t.s.now().UTC()
			p, err := addTo(ctx, t, policies, d, c.Make(t.s.ids.New(store.PrefixPolicy, now), now), now)
			if err != nil {
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
func (t *tenant) UpdatePolicy(ctx context.Context, id string, up store.PolicyUpdate, check func(store.Policy) error) (store.Policy, error) {
	return updateOne(ctx, t, policies, id, func(_ data, p *store.Policy, now time.Time) error {
		up.Apply(p, now)
		if check == nil {
			return nil
		}
		return check(*p)
	})
}

// DeletePolicy removes a policy and its count.
func (t *tenant) DeletePolicy(ctx context.Context, id string) error {
	return deleteOne(ctx, t, policies, id)
}
