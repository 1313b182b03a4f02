package record

import (
	"context"
	"fmt"
	"time"

	"svc/store"
)

// Contents returns a consistent snapshot of everything that can be declared.
func (t *Tenant) Contents(ctx context.Context) (all store.Contents, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		all, err = contentsOf(tx)
		return err
	})
	return all, err
}

func contentsOf(tx Tx) (all store.Contents, err error) {
	if all.Teams, err = oldest(tx, teams); err != nil {
		return all, err
	}
	if all.Agents, err = oldest(tx, agents); err != nil {
		return all, err
	}
	configs := map[string]string{}
	if err := tx.Scan(agentConfigs, Range{}, func(key, value []byte) (bool, error) {
		configs[string(key)] = string(value)
		return true, nil
	}); err != nil {
		return all, err
	}
	for i := range all.Agents {
		all.Agents[i].ConfigYAML = configs[all.Agents[i].ID]
	}
	if all.Aliases, err = aliasesOf(tx); err != nil {
		return all, err
	}
	if all.Policies, err = oldest(tx, policies); err != nil {
		return all, err
	}
	if all.Budgets, err = oldest(tx, budgets); err != nil {
		return all, err
	}
	if all.SLAs, err = oldest(tx, slas); err != nil {
		return all, err
	}
	all.Webhooks, err = oldest(tx, webhooks)
	return all, err
}

// Apply makes many changes in one transaction.
func (t *Tenant) Apply(ctx context.Context, plan func(store.Contents, store.Planner) ([]store.Change, error)) (changes []store.Change, err error) {
	err = t.create(ctx, func() any { return changes }, func(tx Tx) error {
		now := t.e.Now()
		all, err := contentsOf(tx)
		if err != nil {
			return err
		}
		changes, err = plan(all, store.Planner{Now: now, NewID: func(prefix string) string { return t.e.NewID(prefix, now) }})
		for i := 0; err == nil && i < len(changes); i++ {
			err = t.make(ctx, tx, changes[i], now)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

// make makes one change.
func (t *Tenant) make(ctx context.Context, tx Tx, c store.Change, now time.Time) error {
	if before, after, ok := store.SidesOf[store.Team](c); ok {
		return replace(ctx, t, teams, tx, before, after, nil)
	}
	if before, after, ok := store.SidesOf[store.Agent](c); ok {
		return t.makeAgent(ctx, tx, c, before, after, now)
	}
	if before, after, ok := store.SidesOf[store.Policy](c); ok {
		return replace(ctx, t, policies, tx, before, after, nil)
	}
	if before, after, ok := store.SidesOf[store.Budget](c); ok {
		return replace(ctx, t, budgets, tx, before, after, nil)
	}
	if before, after, ok := store.SidesOf[store.SLATarget](c); ok {
		return replace(ctx, t, slas, tx, before, after, nil)
	}
	if before, after, ok := store.SidesOf[store.Webhook](c); ok {
		return replace(ctx, t, webhooks, tx, before, after, nil)
	}
	return fmt.Errorf("a change of %T", c.After)
}

func (t *Tenant) makeAgent(ctx context.Context, tx Tx, c store.Change, before, after *store.Agent, now time.Time) error {
	_, shown := c.Objects()
	if after != nil {
		deployed := *after // the plan's resource is not changed
		if err := t.deploy(tx, &deployed, after.ConfigYAML, c.DeployedBy, now); err != nil {
			return err
		}
	}
	if err := replace(ctx, t, agents, tx, before, after, shown); err != nil {
		return err
	}
	for _, name := range c.FormerNames {
		if err := addAlias(tx, name, after.ID, now); err != nil {
			return err
		}
	}
	return nil
}
