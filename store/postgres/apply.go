package postgres

import (
	"context"
	"fmt"
	"time"

	"svc/store"
)

// Contents returns a consistent snapshot of everything that can be declared.
func (t *tenant) Contents(ctx context.Context) (all store.Contents, err error) {
	err = t.read(ctx, func(d *data) error {
		all, err = d.contents()
		return err
	})
	return all, err
}

func (d *data) contents() (all store.Contents, err error) {
	if all.Teams, err = oldest(d, teams); err != nil {
		return all, err
	}
	if all.Agents, err = oldest(d, agents); err != nil {
		return all, err
	}
	if err = d.configs(all.Agents); err != nil {
		return all, err
	}
	if all.Aliases, err = d.aliases(); err != nil {
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

// oldest returns all resources of a kind, oldest first.
func oldest[T any](d *data, k *kind[T]) ([]T, error) {
	list, err := documents[T](d, `SELECT doc FROM `+k.table+` WHERE tenant = $1 ORDER BY id`, d.n)
	if err == nil && k.whole != nil {
		err = k.whole(d, list)
	}
	return list, err
}

// configs reads the configurations of agents.
func (d *data) configs(list []store.Agent) error {
	configs := map[string]string{}
	var id, config []byte
	err := d.each([]any{&id, &config}, func() error {
		configs[string(id)] = string(config)
		return nil
	}, `SELECT id, config FROM agents WHERE tenant = $1 AND config <> ''`, d.n)
	for i := range list {
		list[i].ConfigYAML = configs[list[i].ID]
	}
	return err
}

// Apply makes many changes in one transaction. Writes are sent to the engine in
// batches.
func (t *tenant) Apply(ctx context.Context, plan func(store.Contents, store.Planner) ([]store.Change, error)) (changes []store.Change, err error) {
	err = t.create(ctx, func() any { return changes }, func(d *data) error {
		now := d.s.now()
		all, err := d.contents()
		if err != nil {
			return err
		}
		changes, err = plan(all, store.Planner{Now: now, NewID: func(prefix string) string { return d.s.ids.New(prefix, now) }})
		for i := 0; err == nil && i < len(changes); i++ {
			err = d.make(changes[i], now)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return changes, nil
}

// make makes one change; the plan has checked it.
func (d *data) make(c store.Change, now time.Time) error {
	if before, after, ok := store.SidesOf[store.Team](c); ok {
		return replace(d, teams, c, before, after)
	}
	if before, after, ok := store.SidesOf[store.Agent](c); ok {
		return d.makeAgent(c, before, after, now)
	}
	if before, after, ok := store.SidesOf[store.Policy](c); ok {
		return replace(d, policies, c, before, after)
	}
	if before, after, ok := store.SidesOf[store.Budget](c); ok {
		return replace(d, budgets, c, before, after)
	}
	if before, after, ok := store.SidesOf[store.SLATarget](c); ok {
		return replace(d, slas, c, before, after)
	}
	return fmt.Errorf("a change of %T", c.After)
}

func (d *data) makeAgent(c store.Change, before, after *store.Agent, now time.Time) error {
	config := ""
	if before != nil {
		config = before.ConfigYAML
	} else {
		d.takeName(after.Name)
	}
	if after != nil && after.ConfigYAML != config {
		a := *after
		if err := d.deploy(&a, after.ConfigYAML, c.DeployedBy, now); err != nil {
			return err
		}
	}
	for _, name := range c.FormerNames {
		d.nameFormer(name, after.ID, now)
	}
	return replace(d, agents, c, before, after)
}

// nameFormer adds a former name of an agent.
func (d *data) nameFormer(name, id string, now time.Time) {
	d.exec(`INSERT INTO agent_aliases (tenant, alias, agent, at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (tenant, alias) DO UPDATE SET agent = excluded.agent, at = excluded.at`, d.n, []byte(name), []byte(id), now.UnixNano())
	d.dropAliases(id, maxAliases)
}

// replace replaces a row, with the audit event.
func replace[T any](d *data, k *kind[T], c store.Change, before, after *T) error {
	if after == nil {
		return removeFrom(d, k, before)
	}
	was, is := c.Objects()
	if err := k.put(d, after); err != nil {
		return err
	}
	return d.change(was, is, k.governs)
}
