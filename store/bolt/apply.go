package bolt

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// Contents returns a consistent snapshot of everything that can be declared.
func (t *tenant) Contents(ctx context.Context) (all store.Contents, err error) {
	err = t.view(ctx, func(d data) error {
		all, err = contentsOf(d)
		return err
	})
	return all, err
}

func contentsOf(d data) (all store.Contents, err error) {
	if all.Teams, err = oldest(d, teams); err != nil {
		return all, err
	}
	if all.Agents, err = oldest(d, agents); err != nil {
		return all, err
	}
	if all.Aliases, err = aliasesOf(d); err != nil {
		return all, err
	}
	if all.Policies, err = oldest(d, policies); err != nil {
		return all, err
	}
	if all.Budgets, err = oldest(d, budgets); err != nil {
		return all, err
	}
	all.SLAs, err = oldest(d, slas)
	return all, err
}

// oldest returns all resources of a kind with all fields, oldest first.
func oldest[T any](d data, k *kind[T]) ([]T, error) {
	list, _, err := newest[T](d.in(k.rows), store.Page{}, nil)
	slices.Reverse(list)
	for i := 0; err == nil && k.fill != nil && i < len(list); i++ {
		err = k.fill(d, &list[i])
	}
	return list, err
}

// Apply makes many changes in one transaction.
func (t *tenant) Apply(ctx context.Context, plan func(store.Contents, store.Planner) ([]store.Change, error)) (changes []store.Change, err error) {
	err = t.create(ctx, func() any { return changes }, func(_ *bbolt.Tx, d data) error {
		now := t.s.now().UTC()
		all, err := contentsOf(d)
		if err != nil {
			return err
		}
		changes, err = plan(all, store.Planner{Now: now, NewID: func(prefix string) string { return t.s.ids.New(prefix, now) }})
		for i := 0; err == nil && i < len(changes); i++ {
			err = t.make(ctx, d, changes[i], now)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

// make makes one change.
func (t *tenant) make(ctx context.Context, d data, c store.Change, now time.Time) error {
	if before, after, ok := store.SidesOf[store.Team](c); ok {
		return replace(ctx, t, teams, d, before, after, nil, now)
	}
	if before, after, ok := store.SidesOf[store.Agent](c); ok {
		if after != nil {
			if err := t.deploy(d, after.ID, after.ConfigYAML, c.DeployedBy, now); err != nil {
				return err
			}
		}
		_, o := c.Objects()
		if err := replace(ctx, t, agents, d, before, after, o, now); err != nil {
			return err
		}
		for _, name := range c.FormerNames {
			if err := d.in(inAgentAliases).Put([]byte(name), aliasValue(after.ID, now)); err != nil {
				return err
			}
		}
		if len(c.FormerNames) > 0 {
			return dropAliases(d, after.ID, maxAliases)
		}
		return nil
	}
	if before, after, ok := store.SidesOf[store.Policy](c); ok {
		return replace(ctx, t, policies, d, before, after, nil, now)
	}
	if before, after, ok := store.SidesOf[store.Budget](c); ok {
		return replace(ctx, t, budgets, d, before, after, nil, now)
	}
	if before, after, ok := store.SidesOf[store.SLATarget](c); ok {
		return replace(ctx, t, slas, d, before, after, nil, now)
	}
	return fmt.Errorf("a change of %T", c.After)
}

// replace replaces a resource, with the audit event; shown converts the resource for
// the event, if that differs from its kind.
func replace[T any](ctx context.Context, t *tenant, k *kind[T], d data, before, after *T, shown *store.Object, now time.Time) error {
	if after == nil {
		return removeFrom(ctx, t, k, d, before)
	}
	var was *store.Object
	old := ""
	if before != nil {
		was = k.object(before)
		old = was.Name
	}
	if shown == nil {
		shown = k.object(after)
	}
	if err := k.write(d, old, after, now); err != nil {
		return err
	}
	return t.changed(ctx, d, was, shown, k.governs)
}
