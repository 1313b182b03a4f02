package memory

import (
	"context"
	"slices"

	"svc/store"
)

// Contents returns a consistent snapshot of everything that can be declared.
func (t *tenant) Contents(ctx context.Context) (all store.Contents, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		all = contentsOf(d)
		return nil
	})
	return all, err
}

func contentsOf(d *tenantData) store.Contents {
	return store.Contents{
		Teams: oldest(d, teams), Agents: oldest(d, agents), Aliases: d.aliasesOf(), Policies: oldest(d, policies),
		Budgets: oldest(d, budgets), SLAs: oldest(d, slas),
	}
}

// oldest returns all resources of a kind, oldest first.
func oldest[T, U any](d *tenantData, k *kind[T, U]) []U {
	rows := k.rows(d).newest(nil)
	slices.Reverse(rows)
	return each(rows, func(row *T) U { return k.out(d, row) })
}

// Apply makes many changes in one step.
func (t *tenant) Apply(ctx context.Context, plan func(store.Contents, store.Planner) ([]store.Change, error)) (changes []store.Change, err error) {
	err = t.create(ctx, func() any { return changes }, func(e *engine, d *tenantData) error {
		now := e.now()
		changes, err = plan(contentsOf(d), store.Planner{Now: now, NewID: func(prefix string) string { return e.ids.New(prefix, now) }})
		if err != nil {
			return err
		}
		for _, c := range changes {
			e.make(ctx, d, c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

// make makes one change; the plan has checked it.
func (e *engine) make(ctx context.Context, d *tenantData, c store.Change) {
	if _, after, ok := store.SidesOf[store.Team](c); ok {
		replace(ctx, e, d, teams, c, func(old *team) *team {
			if old == nil {
				old = &team{members: map[string]store.Member{}}
			}
			return &team{Team: *after, members: old.members}
		})
	}
	if _, after, ok := store.SidesOf[store.Agent](c); ok {
		replace(ctx, e, d, agents, c, func(old *agent) *agent {
			next := &agent{Agent: *after}
			config := ""
			if old == nil {
				delete(d.aliases, after.Name)
			} else {
				next.history, config = old.history, old.ConfigYAML
			}
			if after.ConfigYAML != config {
				e.deploy(next, after.ConfigYAML, c.DeployedBy, e.now())
			}
			for _, name := range c.FormerNames {
				d.aliases[name] = alias{after.ID, e.now()}
			}
			d.dropAliases(after.ID, maxAliases)
			return next
		})
	}
	if _, after, ok := store.SidesOf[store.Policy](c); ok {
		replace(ctx, e, d, policies, c, func(*store.Policy) *store.Policy { p := policies.out(d, after); return &p })
	}
	if _, after, ok := store.SidesOf[store.Budget](c); ok {
		replace(ctx, e, d, budgets, c, func(*store.Budget) *store.Budget { b := *after; return &b })
	}
	if _, after, ok := store.SidesOf[store.SLATarget](c); ok {
		replace(ctx, e, d, slas, c, func(*store.SLATarget) *store.SLATarget {
			s := *after
			s.P99LatencyMs, s.ErrorRatePercent = pointee(after.P99LatencyMs), pointee(after.ErrorRatePercent)
			return &s
		})
	}
}

// replace replaces a row, with the audit event; made builds the new row from the old
// one, which is nil for a creation.
func replace[T, U any](ctx context.Context, e *engine, d *tenantData, k *kind[T, U], c store.Change, made func(old *T) *T) {
	before, after := c.Objects()
	if after == nil {
		removeFrom(ctx, e, d, k, k.rows(d).get(before.ID))
		return
	}
	k.rows(d).put(after.ID, made(k.rows(d).get(after.ID)))
	e.changed(ctx, d, before, after, k.governs)
}
