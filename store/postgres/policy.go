package postgres

import (
	"context"
	"fmt"
	"time"

	"svc/store"
)

var policies = &kind[store.Policy]{
	noun: "policy", prefix: store.PrefixPolicy, table: "policies", object: (*store.Policy).Object, unique: true, governs: true,
	drop: func(d *data, p *store.Policy) error {
		d.exec(`DELETE FROM policy_fires WHERE tenant = $1 AND policy = $2`, d.n, []byte(p.ID))
		return nil
	},
	columns: []string{"phase", "enabled"},
	values:  func(p *store.Policy) []any { return []any{[]byte(p.Phase), p.Enabled} },
}

// ListPolicies returns the policies that pass the filter, newest first.
func (t *tenant) ListPolicies(ctx context.Context, f store.PolicyFilter, page store.Page) ([]store.Policy, int, error) {
	var conditions []condition
	if f.Phase != "" {
		conditions = append(conditions, condition{`phase = $%d`, []byte(f.Phase)})
	}
	if f.Enabled != nil {
		conditions = append(conditions, condition{`enabled = $%d`, *f.Enabled})
	}
	return listOf(ctx, t, policies, page, conditions...)
}

// GetPolicy returns one policy.
func (t *tenant) GetPolicy(ctx context.Context, id string) (store.Policy, error) {
	return getOne(ctx, t, policies, id)
}

// CreatePolicies creates all of the policies or none.
func (t *tenant) CreatePolicies(ctx context.Context, in ...store.PolicyCreate) (list []store.Policy, err error) {
	err = t.create(ctx, func() any { return list }, func(d *data) error {
		list = make([]store.Policy, 0, len(in))
		names := map[string]bool{}
		var name []byte
		err := d.each([]any{&name}, func() error {
			names[string(name)] = true
			return nil
		}, `SELECT name FROM policies WHERE tenant = $1`, d.n)
		if err != nil {
			return err
		}
		if n := len(names); n+len(in) > store.MaxPolicies {
			return store.FieldError(store.Invalid, "too many policies", "name",
				fmt.Sprintf("the tenant has %d already, and may have %d: delete some that are not used", n, store.MaxPolicies))
		}
		for _, c := range in {
			if err := checkName("policy", c.Name); err != nil {
				return err
			}
			if names[c.Name] {
				return store.AlreadyExists("policy", c.Name)
			}
			names[c.Name] = true
			now := d.s.now()
			p := c.Make(d.s.ids.New(store.PrefixPolicy, now), now)
			if err := policies.put(d, &p); err != nil {
				return err
			}
			if err := d.change(nil, p.Object(), true); err != nil {
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
	return updateOne(ctx, t, policies, id, func(_ *data, p *store.Policy, now time.Time) error {
		up.Apply(p, now)
		if check == nil {
			return nil
		}
		out := *p
		out.Condition = p.Condition.Clone()
		return check(out)
	})
}

// DeletePolicy removes a policy and its count.
func (t *tenant) DeletePolicy(ctx context.Context, id string) error {
	return deleteOne(ctx, t, policies, id)
}
