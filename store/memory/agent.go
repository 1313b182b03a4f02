package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"svc/store"
)

// agent is an agent with the history of its configuration, oldest first.
type agent struct {
	store.Agent
	history []store.Deployment
}

// alias is the agent that a former name resolves to, and since when.
type alias struct {
	id string
	at time.Time
}

// maxAliases bounds the former names that are kept of one agent.
const maxAliases = 16

var agents = &kind[agent, store.Agent]{
	noun: "agent", prefix: store.PrefixAgent, rows: func(d *tenantData) *table[agent] { return &d.agents }, unique: true, governs: true,
	object: func(a *agent) *store.Object { return a.Object() },
	drop: func(d *tenantData, a *agent) {
		d.gone[a.ID] = a.Name
		d.dropAliases(a.ID, 0)
		delete(d.traces.tools, a.ID)
	},
	out: func(_ *tenantData, a *agent) store.Agent { return a.Agent },
}

// ListAgents returns the agents that pass the filter, newest first.
func (t *tenant) ListAgents(ctx context.Context, f store.AgentFilter, page store.Page) ([]store.Agent, int, error) {
	list, total, err := listOf(ctx, t, agents, page, func(a *agent) bool { return f.Environment == "" || f.Environment == a.Environment })
	for i := range list {
		list[i].ConfigYAML = ""
	}
	return list, total, err
}

// GetAgent returns one agent with its configuration.
func (t *tenant) GetAgent(ctx context.Context, id string) (store.Agent, error) {
	return getOne(ctx, t, agents, id)
}

// agentName returns the current name of an agent, or its last name when deleted.
func (d *tenantData) agentName(id string) string {
	if a := d.agents.get(id); a != nil {
		return a.Name
	}
	return d.gone[id]
}

// knownAgent rejects an id in a request body that is not an agent of the tenant.
func (d *tenantData) knownAgent(id string) error {
	if d.agents.get(id) == nil {
		return store.FieldError(store.Invalid, "unknown agent", "agentId", "is not an agent of this tenant")
	}
	return nil
}

// newAgent is knownAgent for a reference that an update may change.
func (d *tenantData) newAgent(id *string) error {
	if id == nil {
		return nil
	}
	return d.knownAgent(*id)
}

func (d *tenantData) agentNames() map[string]string {
	return owners(&d.agents, func(a *agent) string { return a.Name })
}

// addAgent adds an agent whose name has been checked. The name is no longer a
// former name of another agent.
func (e *engine) addAgent(d *tenantData, a store.Agent, now time.Time) *agent {
	a.ID, a.CreatedAt, a.UpdatedAt = e.ids.New(store.PrefixAgent, now), now, now
	added := &agent{Agent: a}
	d.agents.put(a.ID, added)
	delete(d.aliases, a.Name)
	return added
}

// CreateAgent creates an agent. Its name is no longer a former name of another
// agent.
func (t *tenant) CreateAgent(ctx context.Context, in store.AgentCreate) (store.Agent, error) {
	return createOne(ctx, t, agents, func(e *engine, d *tenantData, id string, now time.Time) (agent, error) {
		if err := checkName("agent", in.Name, "", d.agentNames()); err != nil {
			return agent{}, err
		}
		a := agent{Agent: in.Make(id, now)}
		delete(d.aliases, in.Name)
		if in.ConfigYAML != "" {
			e.deploy(&a, in.ConfigYAML, in.DeployedBy, now)
		}
		return a, nil
	})
}

// deploy sets the current configuration of an agent.
func (e *engine) deploy(a *agent, config, by string, now time.Time) {
	a.ConfigYAML = config
	a.history = append(slices.Clone(a.history), store.Deployment{ID: e.ids.New(store.PrefixDeployment, now), AgentID: a.ID,
		ConfigYAML: config, DeployedBy: by, DeployedAt: now})
}

// UpdateAgent changes an agent.
func (t *tenant) UpdateAgent(ctx context.Context, id string, up store.AgentUpdate) (store.Agent, error) {
	return updateOne(ctx, t, agents, id, func(e *engine, d *tenantData, a *agent, now time.Time) error {
		old := a.Name
		up.Apply(&a.Agent, now)
		if a.Name != old {
			if err := checkName("agent", a.Name, id, d.agentNames()); err != nil {
				return err
			}
			delete(d.aliases, a.Name)
			d.aliases[old] = alias{id, now}
			d.dropAliases(id, maxAliases)
		}
		if up.ConfigYAML != nil && *up.ConfigYAML != a.ConfigYAML {
			e.deploy(a, *up.ConfigYAML, up.DeployedBy, now)
		}
		return nil
	})
}

// dropAliases removes the oldest aliases of an agent until it has at most n.
func (d *tenantData) dropAliases(id string, n int) {
	var own []string
	for name, a := range d.aliases {
		if a.id == id {
			own = append(own, name)
		}
	}
	slices.SortFunc(own, func(a, b string) int {
		return cmp.Or(d.aliases[b].at.Compare(d.aliases[a].at), strings.Compare(b, a))
	})
	for _, name := range own[min(n, len(own)):] {
		delete(d.aliases, name)
	}
}

// DeleteAgent removes an agent, its tools and its history.
func (t *tenant) DeleteAgent(ctx context.Context, id string) error {
	return deleteOne(ctx, t, agents, id)
}

// ListAgentAliases returns the former names that still resolve to an agent.
func (t *tenant) ListAgentAliases(ctx context.Context) (list []store.AgentAlias, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		list = d.aliasesOf()
		return nil
	})
	return list, err
}

func (d *tenantData) aliasesOf() []store.AgentAlias {
	return each(slices.Sorted(maps.Keys(d.aliases)), func(name string) store.AgentAlias {
		id := d.aliases[name].id
		return store.AgentAlias{Alias: name, AgentID: id, AgentName: d.agentName(id)}
	})
}

// ListDeployments returns the history of an agent, newest first.
func (t *tenant) ListDeployments(ctx context.Context, agentID string, page store.Page) (list []store.Deployment, total int, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		a, err := d.agents.find("agent", agentID)
		if err != nil {
			return err
		}
		newest := slices.Clone(a.history)
		slices.Reverse(newest)
		list, total, err = paged(newest, page, func(dep store.Deployment) store.Deployment { return dep })
		return err
	})
	return list, total, err
}

// ResolveAgents finds or registers the agents that traces name.
func (t *tenant) ResolveAgents(ctx context.Context, named []store.NamedAgent) (list []store.ResolvedAgent, err error) {
	err = t.write(ctx, func(e *engine, d *tenantData) error {
		list = e.resolveAgents(d, named)
		return nil
	})
	return list, err
}

func (e *engine) resolveAgents(d *tenantData, named []store.NamedAgent) []store.ResolvedAgent {
	list := make([]store.ResolvedAgent, len(named))
	unknown := false
	for i, n := range named {
		if n.ID != "" && d.agents.get(n.ID) == nil {
			list[i].Unknown, unknown = true, true
		}
	}
	if unknown {
		return list
	}
	now := e.now()
	for i, n := range named {
		list[i] = e.resolveAgent(d, n, now)
	}
	return list
}

func (e *engine) resolveAgent(d *tenantData, n store.NamedAgent, now time.Time) store.ResolvedAgent {
	a := d.agents.get(n.ID)
	if a == nil {
		a = d.agentByName(n.NameSent)
	}
	if a == nil {
		a = d.agentByName(n.Name)
	}
	if a == nil && len(d.agents.newest(func(a *agent) bool { return a.AutoRegistered })) < e.opts.MaxAutoAgents {
		a = e.addAgent(d, store.Agent{Name: n.Name, ModelProvider: n.ModelProvider, ModelName: n.ModelName,
			Environment: n.Environment, AutoRegistered: true}, now)
	}
	if a == nil {
		return store.ResolvedAgent{Name: n.Name}
	}
	return store.ResolvedAgent{ID: a.ID, Name: a.Name}
}

// agentByName finds the agent that has a name or, if no agent has it, had it.
func (d *tenantData) agentByName(name string) *agent {
	if name == "" {
		return nil
	}
	if id, ok := d.agentNames()[name]; ok {
		return d.agents.get(id)
	}
	return d.agents.get(d.aliases[name].id)
}

// AgentNames returns the current names of agents, and the last names of deleted
// ones.
func (t *tenant) AgentNames(ctx context.Context, ids []string) (list map[string]string, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		list = d.namesOf(ids)
		return nil
	})
	return list, err
}

func (d *tenantData) namesOf(ids []string) map[string]string {
	list := map[string]string{}
	for _, id := range ids {
		if name := d.agentName(id); name != "" {
			list[id] = name
		}
	}
	return list
}
