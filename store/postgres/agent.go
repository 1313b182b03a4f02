package postgres

import (
	"context"
	"time"

	"svc/store"
)

// maxAliases bounds the former names stored per agent.
const maxAliases = 16

// agents implements the kind of agents, whose configuration is stored in a table of its
// own.
var agents = &kind[store.Agent]{
	noun: "agent", prefix: store.PrefixAgent, table: "agents", object: (*store.Agent).Object, unique: true, governs: true,
	columns: []string{"environment", "auto", "config"},
	values: func(a *store.Agent) []any {
		return []any{[]byte(a.Environment), a.AutoRegistered, []byte(a.ConfigYAML)}
	},
	kept: func(a store.Agent) store.Agent {
		a.ConfigYAML = ""
		return a
	},
	one: func(d *data, a *store.Agent) error {
		var config []byte
		_, err := d.one([]any{&config}, `SELECT config FROM agents WHERE tenant = $1 AND id = $2`, d.n, []byte(a.ID))
		a.ConfigYAML = string(config)
		return err
	},
	drop:    dropAgent,
	changed: func(d *data) { d.agents = true },
}

// ListAgents returns the agents that pass the filter, newest first.
func (t *tenant) ListAgents(ctx context.Context, f store.AgentFilter, page store.Page) ([]store.Agent, int, error) {
	var conditions []condition
	if f.Environment != "" {
		conditions = append(conditions, condition{`environment = $%d`, []byte(f.Environment)})
	}
	return listOf(ctx, t, agents, page, conditions...)
}

// GetAgent returns one agent with its configuration.
func (t *tenant) GetAgent(ctx context.Context, id string) (store.Agent, error) {
	return getOne(ctx, t, agents, id)
}

// CreateAgent creates an agent. Its name is no longer a former name of another agent.
func (t *tenant) CreateAgent(ctx context.Context, in store.AgentCreate) (store.Agent, error) {
	return createOne(ctx, t, agents, func(d *data, id string, now time.Time) (store.Agent, error) {
		a := in.Make(id, now)
		d.takeName(in.Name)
		if in.ConfigYAML != "" {
			return a, d.deploy(&a, in.ConfigYAML, in.DeployedBy, now)
		}
		return a, nil
	})
}

// takeName removes the alias with a name.
func (d *data) takeName(name string) {
	d.exec(`DELETE FROM agent_aliases WHERE tenant = $1 AND alias = $2`, d.n, []byte(name))
}

// deploy sets the current configuration of an agent and appends it to its history.
func (d *data) deploy(a *store.Agent, config, by string, now time.Time) error {
	a.ConfigYAML = config
	id := d.s.ids.New(store.PrefixDeployment, now)
	doc, err := document(store.Deployment{ID: id, AgentID: a.ID, ConfigYAML: config, DeployedBy: by, DeployedAt: now})
	if err == nil {
		d.exec(`INSERT INTO deployments (tenant, agent, id, doc) VALUES ($1, $2, $3, $4)`, d.n, []byte(a.ID), []byte(id), doc)
	}
	return err
}

// UpdateAgent changes an agent.
func (t *tenant) UpdateAgent(ctx context.Context, id string, up store.AgentUpdate) (store.Agent, error) {
	return updateOne(ctx, t, agents, id, func(d *data, a *store.Agent, now time.Time) error {
		old, config := a.Name, a.ConfigYAML
		up.Apply(a, now)
		if a.Name != old {
			d.takeName(a.Name)
			d.nameFormer(old, id, now)
		}
		if up.ConfigYAML != nil && *up.ConfigYAML != config {
			return d.deploy(a, *up.ConfigYAML, up.DeployedBy, now)
		}
		return nil
	})
}

// dropAliases removes the oldest aliases of an agent until it has at most n.
func (d *data) dropAliases(id string, n int) {
	d.exec(`DELETE FROM agent_aliases WHERE tenant = $1 AND alias IN
		(SELECT alias FROM agent_aliases WHERE tenant = $1 AND agent = $2 ORDER BY at DESC, alias DESC OFFSET $3)`, d.n, []byte(id), n)
}

// DeleteAgent removes an agent, its tools and its history.
func (t *tenant) DeleteAgent(ctx context.Context, id string) error {
	return deleteOne(ctx, t, agents, id)
}

// dropAgent removes the data of an agent, except its last name.
func dropAgent(d *data, a *store.Agent) error {
	id := []byte(a.ID)
	d.exec(`INSERT INTO agents_gone (tenant, id, name) VALUES ($1, $2, $3)`, d.n, id, []byte(a.Name))
	d.dropAliases(a.ID, 0)
	d.exec(`DELETE FROM deployments WHERE tenant = $1 AND agent = $2`, d.n, id)
	d.exec(`DELETE FROM tools WHERE tenant = $1 AND agent = $2`, d.n, id)
	return nil
}

// ListAgentAliases returns the former names that still resolve to an agent.
func (t *tenant) ListAgentAliases(ctx context.Context) (list []store.AgentAlias, err error) {
	err = t.read(ctx, func(d *data) error {
		list, err = d.aliases()
		return err
	})
	return list, err
}

func (d *data) aliases() ([]store.AgentAlias, error) {
	list := []store.AgentAlias{}
	var alias, id, name []byte
	err := d.each([]any{&alias, &id, &name}, func() error {
		list = append(list, store.AgentAlias{Alias: string(alias), AgentID: string(id), AgentName: string(name)})
		return nil
	}, `SELECT l.alias, a.id, a.name FROM agent_aliases l JOIN agents a ON a.tenant = l.tenant AND a.id = l.agent WHERE l.tenant = $1 ORDER BY l.alias`, d.n)
	return list, err
}

// ListDeployments returns the history of an agent, newest first.
func (t *tenant) ListDeployments(ctx context.Context, agentID string, page store.Page) (list []store.Deployment, total int, err error) {
	err = t.read(ctx, func(d *data) error {
		known, err := d.exists(`SELECT 1 FROM agents WHERE tenant = $1 AND id = $2`, d.n, []byte(agentID))
		if err == nil && !known {
			err = store.Missing("agent")
		}
		if err != nil {
			return err
		}
		if _, err := d.one([]any{&total}, `SELECT count(*) FROM deployments WHERE tenant = $1 AND agent = $2`, d.n, []byte(agentID)); err != nil {
			return err
		}
		list, err = documents[store.Deployment](d, `SELECT doc FROM deployments WHERE tenant = $1 AND agent = $2 ORDER BY id DESC LIMIT $3 OFFSET $4`,
			d.n, []byte(agentID), limitOf(page), max(page.Offset, 0))
		return err
	})
	return list, total, err
}

// AgentNames returns the current names of agents, and the last names of deleted ones.
func (t *tenant) AgentNames(ctx context.Context, ids []string) (names map[string]string, err error) {
	err = t.read(ctx, func(d *data) error {
		names, err = d.agentNames(ids)
		return err
	})
	return names, err
}

func (d *data) agentNames(ids []string) (map[string]string, error) {
	names := map[string]string{}
	if len(ids) == 0 {
		return names, nil
	}
	var id, name []byte
	err := d.each([]any{&id, &name}, func() error {
		names[string(id)] = string(name)
		return nil
	}, `SELECT id, name FROM agents_gone WHERE tenant = $1 AND id = ANY($2) UNION ALL SELECT id, name FROM agents WHERE tenant = $1 AND id = ANY($2)`, d.n, texts(ids))
	return names, err
}

// nameAgents sets the agent names of a list of resources. agent returns a resource's agent
// id and a pointer to the field for the name. The name of an unknown agent is empty.
func nameAgents[T any](d *data, list []T, agent func(*T) (id string, name *string)) error {
	ids := make([]string, len(list))
	for i := range list {
		ids[i], _ = agent(&list[i])
	}
	names, err := d.agentNames(ids)
	for i := range list {
		id, name := agent(&list[i])
		*name = names[id]
	}
	return err
}

// knownAgent rejects an id in a request body that is not an agent of the tenant.
func (d *data) knownAgent(id string) error {
	known, err := d.exists(`SELECT 1 FROM agents WHERE tenant = $1 AND id = $2`, d.n, []byte(id))
	if err == nil && !known {
		err = store.FieldError(store.Invalid, "unknown agent", "agentId", "is not an agent of this tenant")
	}
	return err
}

// newAgent is knownAgent for a reference that an update may change.
func (d *data) newAgent(id *string) error {
	if id == nil {
		return nil
	}
	return d.knownAgent(*id)
}
