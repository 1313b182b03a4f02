package postgres

import (
	"context"
	"maps"

	"svc/store"
)

// agentView is the cached agents of a tenant at one value of the counter of agent
// changes.
type agentView struct {
	gen   int64
	names map[string]string              // names of agents, by id
	means map[string]store.ResolvedAgent // agents by their current or former names, or by names that can no longer be registered

	horizon, purged int64 // retention cutoff of the tenant's traces
}

// maxView bounds the cached agents of a tenant.
const maxView = 10_000

func newView(gen int64) *agentView {
	return &agentView{gen: gen, names: map[string]string{}, means: map[string]store.ResolvedAgent{}}
}

// resolve finds the agent of a reference; ok is false when it is unknown.
func (v *agentView) resolve(n *store.NamedAgent) (a store.ResolvedAgent, ok bool) {
	if n.ID != "" {
		name, ok := v.names[n.ID]
		return store.ResolvedAgent{ID: n.ID, Name: name}, ok
	}
	if a, ok := v.means[n.NameSent]; ok && n.NameSent != "" && a.ID != "" {
		return a, true
	}
	a, ok = v.means[n.Name]
	return a, ok
}

// missing returns the ids and names that the view does not have.
func (v *agentView) missing(named []store.NamedAgent) (ids, names []string) {
	seen := map[string]bool{"": true}
	for i := range named {
		n := &named[i]
		if n.ID != "" {
			if _, ok := v.names[n.ID]; !ok && !seen["i"+n.ID] {
				seen["i"+n.ID] = true
				ids = append(ids, n.ID)
			}
			continue
		}
		for _, name := range [...]string{n.NameSent, n.Name} {
			if _, ok := v.means[name]; !ok && name != "" && !seen["n"+name] {
				seen["n"+name] = true
				names = append(names, name)
			}
		}
	}
	return ids, names
}

// look adds the engine's results for ids and names.
func (v *agentView) look(d *data, ids, names []string) error {
	if len(ids)+len(names) == 0 {
		return nil
	}
	var id, name, alias []byte
	if len(names) > 0 {
		// Former names first, so that current names override them.
		err := d.each([]any{&alias, &id, &name}, func() error {
			v.means[string(alias)] = store.ResolvedAgent{ID: string(id), Name: string(name)}
			return nil
		}, `SELECT l.alias, a.id, a.name FROM agent_aliases l JOIN agents a ON a.tenant = l.tenant AND a.id = l.agent WHERE l.tenant = $1 AND l.alias = ANY($2)`, d.n, texts(names))
		if err != nil {
			return err
		}
	}
	return d.each([]any{&id, &name}, func() error {
		v.names[string(id)] = string(name)
		v.means[string(name)] = store.ResolvedAgent{ID: string(id), Name: string(name)}
		return nil
	}, `SELECT id, name FROM agents WHERE tenant = $1 AND (id = ANY($2) OR name = ANY($3))`, d.n, texts(ids), texts(names))
}

// knownView returns a copy of the cached agents of a tenant for one value of the
// counter of agent changes.
func (s *Store) knownView(n int32, gen int64) *agentView {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.views[n]; known != nil && known.gen == gen && len(known.names)+len(known.means) < maxView {
		return known.clone()
	}
	return newView(gen)
}

// clone returns a copy that can be extended.
func (v *agentView) clone() *agentView {
	c := *v
	c.names, c.means = maps.Clone(v.names), maps.Clone(v.means)
	return &c
}

// forgetView drops the cached agents, because they have changed.
func (s *Store) forgetView(n int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.views, n)
}

// rememberView caches the view, unless a newer one is cached.
func (s *Store) rememberView(n int32, v *agentView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.views[n]; known == nil || known.gen <= v.gen && known.horizon <= v.horizon {
		s.views[n] = v
	}
}

// register registers an agent that traces name, up to the bound, and adds it to the
// view.
func (d *data) register(v *agentView, n *store.NamedAgent) error {
	var registered int
	if _, err := d.one([]any{&registered}, `SELECT count(*) FROM agents WHERE tenant = $1 AND auto`, d.n); err != nil {
		return err
	}
	if registered >= d.s.maxAuto {
		v.means[n.Name] = store.ResolvedAgent{Name: n.Name}
		return nil
	}
	now := d.s.now()
	a := store.Agent{ID: d.s.ids.New(store.PrefixAgent, now), Name: n.Name, ModelProvider: n.ModelProvider, ModelName: n.ModelName,
		Environment: n.Environment, AutoRegistered: true, CreatedAt: now, UpdatedAt: now}
	if err := agents.put(d, &a); err != nil {
		return err
	}
	v.names[a.ID] = a.Name
	v.means[a.Name] = store.ResolvedAgent{ID: a.ID, Name: a.Name}
	return nil
}

// ResolveAgents finds or registers the agents that traces name.
func (t *tenant) ResolveAgents(ctx context.Context, named []store.NamedAgent) (list []store.ResolvedAgent, err error) {
	err = t.write(ctx, func(d *data) error {
		v := newView(0)
		ids, names := v.missing(named)
		if err := v.look(d, ids, names); err != nil {
			return err
		}
		list = make([]store.ResolvedAgent, len(named))
		unknown := false
		for i := range named {
			if _, ok := v.names[named[i].ID]; named[i].ID != "" && !ok {
				list[i].Unknown, unknown = true, true
			}
		}
		if unknown {
			return nil
		}
		for i := range named {
			a, ok := v.resolve(&named[i])
			if !ok {
				if err := d.register(v, &named[i]); err != nil {
					return err
				}
				a, _ = v.resolve(&named[i])
			}
			list[i] = a
		}
		return nil
	})
	return list, err
}
