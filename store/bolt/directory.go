package bolt

import (
	"context"

	"go.etcd.io/bbolt"

	"svc/store"
)

// ResolveAgents finds or registers agents for traces that are in another store.
// Agents of this store's own traces are resolved in the transaction of the traces,
// see writer.resolve.
func (t *tenant) ResolveAgents(ctx context.Context, named []store.NamedAgent) (list []store.ResolvedAgent, err error) {
	// First in a read transaction: if all agents are known, nothing is written.
	known := true
	err = t.view(ctx, func(d data) error {
		r := &resolver{st: t.s.state(t.id), d: &d, gen: d.counter(stateAgentGen), fresh: map[dictEntry]uint32{}, known: map[dictEntry]agentKnown{}}
		list = make([]store.ResolvedAgent, len(named))
		for i, n := range named {
			a, ok, err := r.agentOf(traceOf(n))
			if err != nil {
				return err
			}
			list[i], known = store.ResolvedAgent{ID: a.id, Name: a.name}, known && ok
		}
		return nil
	})
	if err != nil || known {
		return list, err
	}
	var w *writer
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		w = newWriter(t.s, t.s.state(t.id), d)
		list = make([]store.ResolvedAgent, len(named))
		unknown := false
		for i, n := range named {
			if n.ID == "" {
				continue
			}
			_, ok, err := w.r.agent(n.ID, "")
			if err != nil {
				return err
			}
			list[i].Unknown, unknown = !ok, unknown || !ok
		}
		if unknown {
			return nil
		}
		now := t.s.now()
		for i, n := range named {
			a, ok, err := w.r.agentOf(traceOf(n))
			if err == nil && !ok {
				a, err = w.register(traceOf(n), now)
			}
			if err != nil {
				return err
			}
			list[i] = store.ResolvedAgent{ID: a.id, Name: a.name}
		}
		return w.finish()
	})
	if err != nil {
		return nil, err
	}
	w.st.committed(&w.r)
	return list, nil
}

// traceOf returns a trace with a reference to an agent.
func traceOf(n store.NamedAgent) *store.Trace {
	return &store.Trace{AgentID: n.ID, AgentName: n.Name, AgentNameSent: n.NameSent,
		ModelProvider: n.ModelProvider, ModelName: n.ModelName, Environment: n.Environment}
}

// AgentNames returns the current names of agents, and the last names of deleted
// ones.
func (t *tenant) AgentNames(ctx context.Context, ids []string) (list map[string]string, err error) {
	err = t.view(ctx, func(d data) error {
		list = make(map[string]string, len(ids))
		for _, id := range ids {
			name, err := agentName(d, id)
			if err != nil {
				return err
			}
			if name != "" {
				list[id] = name
			}
		}
		return nil
	})
	return list, err
}
