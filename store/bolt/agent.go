package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// ListAgents returns the agents that pass the filter, newest first.
func (t *tenant) ListAgents(ctx context.Context, f store.AgentFilter, page store.Page) (list []store.Agent, total int, err error) {
	err = t.view(ctx, func(d data) error {
		var keep func(*store.Agent) bool
		if f.Environment != "" {
			keep = func(a *store.Agent) bool { return a.Environment == f.Environment }
		}
		list, total, err = newest(d.in(inAgents), page, keep)
		return err
	})
	return list, total, err
}

// GetAgent returns one agent with its configuration.
func (t *tenant) GetAgent(ctx context.Context, id string) (agent store.Agent, err error) {
	err = t.view(ctx, func(d data) error {
		agent, err = agentByID(d, id)
		agent.ConfigYAML = string(d.in(inAgentConfigs).Get([]byte(id)))
		return err
	})
	return agent, err
}

func agentByID(d data, id string) (store.Agent, error) {
	agent, ok, err := getJSON[store.Agent](d.in(inAgents), id)
	if err == nil && !ok {
		err = store.Missing("agent")
	}
	return agent, err
}

// agentName is the present name of an agent, its last one when deleted.
func agentName(d data, id string) (string, error) {
	agent, ok, err := getJSON[store.Agent](d.in(inAgents), id)
	if err != nil || ok {
		return agent.Name, err
	}
	return string(d.in(inAgentsFormer).Get([]byte(id))), nil
}

// knownAgent refuses an agent id in a body that is not the tenant's.
func knownAgent(d data, id string) error {
	if id == "" || d.in(inAgents).Get([]byte(id)) == nil {
		return store.FieldError(store.Invalid, "unknown agent", "agentId", "is not an agent of this tenant")
	}
	return nil
}

// CreateAgent makes an agent.
func (t *tenant) CreateAgent(ctx context.Context, in store.AgentCreate) (agent store.Agent, err error) {
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		now := t.s.now().UTC()
		agent = store.Agent{
			ID: t.s.ids.New(store.PrefixAgent, now), Name: in.Name, Description: in.Description,
			ModelProvider: in.ModelProvider, ModelName: in.ModelName, Environment: in.Environment,
			CreatedAt: now, UpdatedAt: now,
		}
		if err := claimName(d.in(inAgentNames), "agent", "", in.Name, agent.ID); err != nil {
			return err
		}
		if err := putJSON(d.in(inAgents), agent.ID, agent); err != nil {
			return err
		}
		if err := agentsChanged(d); err != nil {
			return err
		}
		return t.deploy(d, &agent, in.ConfigYAML, in.DeployedBy, now)
	})
	return agent, err
}

// deploy makes a configuration the agent's present one and appends it to its
// history. An empty first configuration is none.
func (t *tenant) deploy(d data, agent *store.Agent, config, by string, now time.Time) error {
	agent.ConfigYAML = config
	if config == "" && d.in(inAgentConfigs).Get([]byte(agent.ID)) == nil {
		return nil
	}
	if err := d.in(inAgentConfigs).Put([]byte(agent.ID), []byte(config)); err != nil {
		return err
	}
	dep := store.Deployment{ID: t.s.ids.New(store.PrefixDeployment, now), AgentID: agent.ID,
		ConfigYAML: config, DeployedBy: by, DeployedAt: now}
	return putJSON(d.in(inDeployments), string(joined(agent.ID, dep.ID)), dep)
}

// UpdateAgent changes an agent.
func (t *tenant) UpdateAgent(ctx context.Context, id string, up store.AgentUpdate) (agent store.Agent, err error) {
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		if agent, err = agentByID(d, id); err != nil {
			return err
		}
		if up.Name != nil {
			if err := claimName(d.in(inAgentNames), "agent", agent.Name, *up.Name, id); err != nil {
				return err
			}
		}
		for _, f := range []struct{ to, from *string }{
			{&agent.Name, up.Name}, {&agent.Description, up.Description}, {&agent.ModelProvider, up.ModelProvider},
			{&agent.ModelName, up.ModelName}, {&agent.Environment, up.Environment},
		} {
			if f.from != nil {
				*f.to = *f.from
			}
		}
		now := t.s.now().UTC()
		agent.UpdatedAt = now
		if err := putJSON(d.in(inAgents), id, agent); err != nil {
			return err
		}
		if err := agentsChanged(d); err != nil {
			return err
		}
		present := string(d.in(inAgentConfigs).Get([]byte(id)))
		if up.ConfigYAML != nil && *up.ConfigYAML != present {
			return t.deploy(d, &agent, *up.ConfigYAML, up.DeployedBy, now)
		}
		agent.ConfigYAML = present
		return nil
	})
	return agent, err
}

// DeleteAgent removes an agent, its tools and its history.
func (t *tenant) DeleteAgent(ctx context.Context, id string) error {
	return t.update(ctx, func(_ *bbolt.Tx, d data) error {
		agent, err := agentByID(d, id)
		if err != nil {
			return err
		}
		if err := agentsChanged(d); err != nil {
			return err
		}
		if agent.AutoRegistered {
			if n := d.counter(stateAutoAgents); n > 0 {
				if err := d.setCounter(stateAutoAgents, n-1); err != nil {
					return err
				}
			}
		}
		for _, name := range []string{inTools, inDeployments} {
			if err := deletePrefix(d.in(name), joined(id, "")); err != nil {
				return err
			}
		}
		if err := d.in(inAgentsFormer).Put([]byte(id), []byte(agent.Name)); err != nil {
			return err
		}
		if err := d.in(inAgentNames).Delete([]byte(agent.Name)); err != nil {
			return err
		}
		if err := d.in(inAgentConfigs).Delete([]byte(id)); err != nil {
			return err
		}
		return d.in(inAgents).Delete([]byte(id))
	})
}

func deletePrefix(b *bbolt.Bucket, prefix []byte) error {
	var keys [][]byte
	c := b.Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	for _, k := range keys {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// maxTools bounds the tools that are kept of one agent: tool names come from outside.
const maxTools = 1000

// A tool is kept as its count and its last call (nanoseconds), 8 bytes each, and
// its id. A key without a tool name holds how many tools the agent has.

// countTool adds calls to a tool of an agent.
func (s *Store) countTool(tools *bbolt.Bucket, agentID, tool string, calls uint64, last int64, now time.Time) error {
	key := joined(agentID, tool)
	old := tools.Get(key)
	var id string
	switch {
	case len(old) > 16:
		calls += binary.BigEndian.Uint64(old)
		last = max(last, int64(binary.BigEndian.Uint64(old[8:])))
		id = string(old[16:])
	default:
		counter := joined(agentID, "")
		n := number(tools.Get(counter))
		if n >= maxTools {
			return nil
		}
		if err := tools.Put(counter, bytes8(n+1)); err != nil {
			return err
		}
		id = s.ids.New(store.PrefixTool, now)
	}
	val := make([]byte, 0, 16+len(id))
	val = binary.BigEndian.AppendUint64(val, calls)
	val = binary.BigEndian.AppendUint64(val, uint64(last))
	return tools.Put(key, append(val, id...))
}

// ListTools returns the tools of an agent, newest first.
func (t *tenant) ListTools(ctx context.Context, agentID string, page store.Page) (list []store.AgentTool, total int, err error) {
	err = t.view(ctx, func(d data) error {
		if _, err := agentByID(d, agentID); err != nil {
			return err
		}
		prefix := joined(agentID, "")
		c := d.in(inTools).Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if len(k) == len(prefix) || len(v) <= 16 {
				continue
			}
			list = append(list, store.AgentTool{
				ID: string(v[16:]), AgentID: agentID, ToolName: string(k[len(prefix):]),
				CallCount:    int64(binary.BigEndian.Uint64(v)),
				LastCalledAt: timeOf(binary.BigEndian.Uint64(v[8:])),
			})
		}
		slices.SortFunc(list, func(a, b store.AgentTool) int { return strings.Compare(b.ID, a.ID) })
		total = len(list)
		from, to := page.Bounds(total)
		list = append([]store.AgentTool{}, list[from:to]...)
		return nil
	})
	return list, total, err
}

// ListDeployments returns the history of an agent, newest first.
func (t *tenant) ListDeployments(ctx context.Context, agentID string, page store.Page) (list []store.Deployment, total int, err error) {
	list = []store.Deployment{}
	err = t.view(ctx, func(d data) error {
		if _, err := agentByID(d, agentID); err != nil {
			return err
		}
		b, prefix := d.in(inDeployments), joined(agentID, "")
		var keys []string
		c := b.Cursor()
		for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
			keys = append(keys, string(k))
		}
		slices.Reverse(keys)
		total = len(keys)
		from, to := page.Bounds(total)
		for _, k := range keys[from:to] {
			dep, _, err := getJSON[store.Deployment](b, k)
			if err != nil {
				return err
			}
			list = append(list, dep)
		}
		return nil
	})
	return list, total, err
}
