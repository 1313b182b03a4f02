package record

import (
	"context"
	"slices"
	"time"

	"svc/store"
)

// agents implements the kind of agents, whose configuration is stored in a bucket of its
// own.
var agents = &kind[store.Agent]{
	noun: "agent", prefix: store.PrefixAgent, rows: AgentRows, names: agentNames, object: (*store.Agent).Object, governs: true,
	stored: func(a store.Agent) store.Agent {
		a.ConfigYAML = ""
		return a
	},
	fill: func(tx Tx, a *store.Agent) error {
		config, err := tx.Get(agentConfigs, []byte(a.ID))
		a.ConfigYAML = string(config)
		return err
	},
	claim: claimAgentName, drop: dropAgent, event: store.AgentCreatedEvent,
	changed: func(t *Tenant, tx Tx) error { return t.e.AgentsChanged(tx) },
}

// ListAgents returns the agents that pass the filter, newest first.
func (t *Tenant) ListAgents(ctx context.Context, f store.AgentFilter, page store.Page) ([]store.Agent, int, error) {
	var having [][]byte // rows of agents are flat
	if f.Environment != "" {
		having = append(having, field("Environment", f.Environment))
	}
	if f.TeamID != "" {
		having = append(having, field("TeamID", f.TeamID))
	}
	return listOf(ctx, t, agents, page, nil, having...)
}

// GetAgent returns one agent with its configuration.
func (t *Tenant) GetAgent(ctx context.Context, id string) (store.Agent, error) {
	return getOne(ctx, t, agents, id)
}

// CreateAgent creates an agent.
func (t *Tenant) CreateAgent(ctx context.Context, in store.AgentCreate) (store.Agent, error) {
	return createOne(ctx, t, agents, func(tx Tx, id string, now time.Time) (store.Agent, error) {
		a := in.Make(id, now)
		if err := knownTeam(tx, in.TeamID); err != nil {
			return a, err
		}
		return a, t.deploy(tx, &a, in.ConfigYAML, in.DeployedBy, now)
	})
}

// UpdateAgent changes an agent.
func (t *Tenant) UpdateAgent(ctx context.Context, id string, up store.AgentUpdate) (store.Agent, error) {
	return updateOne(ctx, t, agents, id, func(tx Tx, a *store.Agent, now time.Time) error {
		if up.TeamID != nil && *up.TeamID != a.TeamID {
			if err := knownTeam(tx, *up.TeamID); err != nil {
				return err
			}
		}
		up.Apply(a, now)
		if up.ConfigYAML == nil {
			return nil
		}
		return t.deploy(tx, a, *up.ConfigYAML, up.DeployedBy, now)
	})
}

// DeleteAgent removes an agent, its tools and its history.
func (t *Tenant) DeleteAgent(ctx context.Context, id string) error {
	return deleteOne(ctx, t, agents, id)
}

// deploy sets the current configuration of an agent and appends it to the agent's history.
// An unchanged configuration, and an empty first one, are ignored.
func (t *Tenant) deploy(tx Tx, a *store.Agent, config, by string, now time.Time) error {
	key := []byte(a.ID)
	current, err := tx.Get(agentConfigs, key)
	if err != nil || string(current) == config {
		return err
	}
	if config == "" {
		err = tx.Delete(agentConfigs, key)
	} else {
		err = tx.Put(agentConfigs, key, []byte(config))
	}
	if err != nil {
		return err
	}
	a.ConfigYAML = config
	dep := store.Deployment{ID: t.e.NewID(store.PrefixDeployment, now), AgentID: a.ID, ConfigYAML: config, DeployedBy: by, DeployedAt: now}
	return put(tx, deployments, joined(a.ID, dep.ID), dep)
}

// ListDeployments returns the history of an agent, newest first.
func (t *Tenant) ListDeployments(ctx context.Context, agentID string, page store.Page) (list []store.Deployment, total int, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		list, total = []store.Deployment{}, 0
		known, err := tx.Get(AgentRows, []byte(agentID))
		if err == nil && known == nil {
			err = store.Missing("agent")
		}
		if err != nil {
			return err
		}
		r := prefixed(agentID)
		if total, err = tx.Count(deployments, r); err != nil {
			return err
		}
		r.Reverse = true
		r.Most = max(page.Limit, 0)
		if skipped := max(page.Offset, 0); skipped > 0 {
			// Configurations are large: those before the page are not read.
			if r.To, err = keyAt(tx, deployments, r, skipped-1); err != nil || r.To == nil {
				return err
			}
		}
		return each(tx, deployments, r, func(d *store.Deployment) (bool, error) {
			list = append(list, *d)
			return page.Limit <= 0 || len(list) < page.Limit, nil
		})
	})
	return list, total, err
}

// keyAt returns the key of the row of a range that has n rows before it, nil when the range
// has fewer rows.
func keyAt(tx Tx, bucket string, r Range, n int) (at []byte, err error) {
	r.Keys, r.Most = true, n+1
	err = tx.Scan(bucket, r, func(key, _ []byte) (bool, error) {
		if n--; n < 0 {
			at = slices.Clone(key)
		}
		return n >= 0, nil
	})
	return at, err
}

// keysIn returns the keys of a range.
func keysIn(tx Tx, bucket string, r Range) (keys [][]byte, err error) {
	r.Keys = true
	err = tx.Scan(bucket, r, func(key, _ []byte) (bool, error) {
		keys = append(keys, slices.Clone(key))
		return true, nil
	})
	return keys, err
}

// dropAgent removes the data of an agent, except its last name.
func dropAgent(_ context.Context, t *Tenant, tx Tx, a *store.Agent) error {
	if a.AutoRegistered {
		if err := countAuto(tx, -1); err != nil {
			return err
		}
	}
	history, err := keysIn(tx, deployments, prefixed(a.ID))
	if err != nil {
		return err
	}
	if err := tx.Delete(deployments, history...); err != nil {
		return err
	}
	if err := tx.Put(agentsFormer, []byte(a.ID), []byte(a.Name)); err != nil {
		return err
	}
	if err := dropAliases(tx, a.ID, 0); err != nil {
		return err
	}
	if err := tx.Delete(agentConfigs, []byte(a.ID)); err != nil {
		return err
	}
	return t.e.ForgetAgent(tx, a.ID)
}

// knownAgent rejects an id in a request body that is not an agent of the tenant.
func knownAgent(tx Tx, id string) error {
	agent, err := tx.Get(AgentRows, []byte(id))
	if err == nil && agent == nil {
		err = store.FieldError(store.Invalid, "unknown agent", "agentId", "is not an agent of this tenant")
	}
	return err
}

// newAgent is knownAgent for a reference that an update may change.
func newAgent(tx Tx, id *string) error {
	if id == nil {
		return nil
	}
	return knownAgent(tx, *id)
}

// AgentByID finds an agent by its id.
func AgentByID(tx Tx, id string) (a store.ResolvedAgent, known bool, err error) {
	agent, known, err := get[store.Agent](tx, AgentRows, []byte(id))
	return store.ResolvedAgent{ID: id, Name: agent.Name, TeamID: agent.TeamID}, known, err
}

// AgentByName finds the agent with a name or, if no agent has the name, with a former
// name.
func AgentByName(tx Tx, name string) (a store.ResolvedAgent, known bool, err error) {
	id, err := tx.Get(agentNames, []byte(name))
	if err != nil || id != nil {
		if err == nil {
			a, known, err = AgentByID(tx, string(id))
		}
		return a, known, err
	}
	alias, known, err := get[aliasRecord](tx, agentAliases, []byte(name))
	if err != nil || !known {
		return a, false, err
	}
	return AgentByID(tx, alias.Agent)
}

// LookUpAgents finds many agents at once: those with ids, by id, and those with names or
// former names, by these names. Unknown ones are left out.
func LookUpAgents(tx Tx, ids, names []string) (byID, byName map[string]store.ResolvedAgent, err error) {
	byID, byName = map[string]store.ResolvedAgent{}, map[string]store.ResolvedAgent{}
	var named, rows [][]byte
	for _, s := range names {
		named = append(named, []byte(s))
	}
	for _, s := range ids {
		rows = append(rows, []byte(s))
	}
	// The engine keeps what it has read.
	found, err := tx.Many(agentNames, named)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range found {
		if id != nil {
			rows = append(rows, slices.Clone(id))
		}
	}
	if _, err := tx.Many(agentAliases, named); err != nil {
		return nil, nil, err
	}
	if _, err := tx.Many(AgentRows, rows); err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		if a, known, err := AgentByID(tx, id); err != nil {
			return nil, nil, err
		} else if known {
			byID[id] = a
		}
	}
	for _, name := range names {
		if a, known, err := AgentByName(tx, name); err != nil {
			return nil, nil, err
		} else if known {
			byName[name] = a
		}
	}
	return byID, byName, nil
}

// resolve finds the agent that a trace names.
func resolve(tx Tx, n *store.NamedAgent) (a store.ResolvedAgent, known bool, err error) {
	if n.ID != "" {
		return AgentByID(tx, n.ID)
	}
	if n.NameSent != "" {
		if a, known, err = AgentByName(tx, n.NameSent); err != nil || known {
			return a, known, err
		}
	}
	return AgentByName(tx, n.Name)
}

// keyAuto is the row with the number of agents that traces have registered.
var keyAuto = []byte("auto")

func countAuto(tx Tx, by int) error {
	n, _, err := get[int](tx, agentCounts, keyAuto)
	if err != nil {
		return err
	}
	return put(tx, agentCounts, keyAuto, max(n+by, 0))
}

// RegisterAgent registers an agent that traces name, up to the engine's bound; beyond the
// bound it is known by name only. The caller notes that agents have changed.
func (t *Tenant) RegisterAgent(tx Tx, n *store.NamedAgent, now time.Time) (store.ResolvedAgent, error) {
	a := store.ResolvedAgent{Name: n.Name}
	registered, _, err := get[int](tx, agentCounts, keyAuto)
	if err != nil || registered >= t.e.MaxAutoAgents() {
		return a, err
	}
	a.ID = t.e.NewID(store.PrefixAgent, now)
	agent := store.Agent{ID: a.ID, Name: n.Name, ModelProvider: n.ModelProvider, ModelName: n.ModelName,
		Environment: n.Environment, AutoRegistered: true, CreatedAt: now, UpdatedAt: now}
	if err := claimAgentName(tx, "", agent.Name, agent.ID, now); err != nil {
		return a, err
	}
	if err := put(tx, AgentRows, []byte(agent.ID), agent); err != nil {
		return a, err
	}
	if err := t.notify(tx, store.AgentCreatedEvent(&agent)); err != nil {
		return a, err
	}
	return a, countAuto(tx, 1)
}

// Resolve finds or registers the agents that traces name, see
// [store.AgentDirectory.ResolveAgents].
func (t *Tenant) Resolve(tx Tx, named []store.NamedAgent) ([]store.ResolvedAgent, error) {
	list := make([]store.ResolvedAgent, len(named))
	unknown := false
	for i := range named {
		if named[i].ID == "" {
			continue
		}
		_, known, err := AgentByID(tx, named[i].ID)
		if err != nil {
			return nil, err
		}
		list[i].Unknown, unknown = !known, unknown || !known
	}
	if unknown {
		return list, nil
	}
	registered := false
	for i := range named {
		a, known, err := resolve(tx, &named[i])
		if err == nil && !known {
			a, err = t.RegisterAgent(tx, &named[i], t.e.Now())
			registered = registered || a.ID != ""
		}
		if err != nil {
			return nil, err
		}
		list[i] = a
	}
	if !registered {
		return list, nil
	}
	return list, t.e.AgentsChanged(tx)
}

// ResolveAgents finds or registers agents for traces that are in another store.
func (t *Tenant) ResolveAgents(ctx context.Context, named []store.NamedAgent) (list []store.ResolvedAgent, err error) {
	// First in a read transaction: if all agents are known, nothing is written.
	all := true
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		list = make([]store.ResolvedAgent, len(named))
		for i := range named {
			a, known, err := resolve(tx, &named[i])
			if err != nil {
				return err
			}
			list[i], all = a, all && known
		}
		return nil
	})
	if err != nil || all {
		return list, err
	}
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		list, err = t.Resolve(tx, named)
		return err
	})
	return list, err
}
