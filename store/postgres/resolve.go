package postgres

import (
	"maps"

	"svc/store"
	"svc/store/record"
)

// agentView is the cached agents of a tenant at one value of the counter of agent
// changes.
type agentView struct {
	gen   int64
	ids   map[string]store.ResolvedAgent // agents by id
	means map[string]store.ResolvedAgent // agents by their current or former names, or by names that can no longer be registered

	horizon, purged int64 // retention cutoff of the tenant's traces
}

// maxView bounds the cached agents of a tenant.
const maxView = 10_000

func newView(gen int64) *agentView {
	return &agentView{gen: gen, ids: map[string]store.ResolvedAgent{}, means: map[string]store.ResolvedAgent{}}
}

// resolve finds the agent of a reference; ok is false when it is unknown.
func (v *agentView) resolve(n *store.NamedAgent) (a store.ResolvedAgent, ok bool) {
	if n.ID != "" {
		a, ok = v.ids[n.ID]
		return a, ok
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
			if _, ok := v.ids[n.ID]; !ok && !seen["i"+n.ID] {
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
	byID, byName, err := record.LookUpAgents(d, ids, names)
	maps.Copy(v.ids, byID)
	maps.Copy(v.means, byName)
	for _, a := range byName {
		v.ids[a.ID] = a
	}
	return err
}

// knownView returns a copy of the cached agents of a tenant for one value of the
// counter of agent changes.
func (s *Store) knownView(n int32, gen int64) *agentView {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.views[n]; known != nil && known.gen == gen && len(known.ids)+len(known.means) < maxView {
		return known.clone()
	}
	return newView(gen)
}

// clone returns a copy that can be extended.
func (v *agentView) clone() *agentView {
	c := *v
	c.ids, c.means = maps.Clone(v.ids), maps.Clone(v.means)
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
	t := record.Of(engine{d.s}, "")
	a, err := t.RegisterAgent(d, n, d.s.now())
	if err != nil {
		return err
	}
	v.means[n.Name] = a
	if a.ID != "" {
		v.ids[a.ID], d.agents = a, true
	}
	return nil
}
