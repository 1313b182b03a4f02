package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// agents implements the kind of agents, whose configuration is stored in a bucket of
// its own.
var agents = &kind[store.Agent]{
	noun: "agent", prefix: store.PrefixAgent, rows: inAgents, names: inAgentNames, object: (*store.Agent).Object, governs: true,
	fill: func(d data, a *store.Agent) error {
		a.ConfigYAML = string(d.in(inAgentConfigs).Get([]byte(a.ID)))
		return nil
	},
	claim: claimAgentName, drop: dropAgent,
	put: func(d data, a *store.Agent) error {
		record := *a
		record.ConfigYAML = ""
		if err := putJSON(d.in(inAgents), a.ID, record); err != nil {
			return err
		}
		return agentsChanged(d)
	},
}

// ListAgents returns the agents that pass the filter, newest first.
func (t *tenant) ListAgents(ctx context.Context, f store.AgentFilter, page store.Page) ([]store.Agent, int, error) {
	var keep func(*store.Agent) bool
	if f.Environment != "" {
		keep = func(a *store.Agent) bool { return a.Environment == f.Environment }
	}
	return listOf(ctx, t, agents, page, keep)
}

// GetAgent returns one agent with its configuration.
func (t *tenant) GetAgent(ctx context.Context, id string) (store.Agent, error) {
	return getOne(ctx, t, agents, id)
}

func agentByID(d data, id string) (store.Agent, error) {
	return findJSON[store.Agent](d.in(inAgents), "agent", id)
}

// newAgent is knownAgent for a reference that an update may change.
func newAgent(d data, id *string) error {
	if id == nil {
		return nil
	}
	return knownAgent(d, *id)
}

// agentName returns the current name of an agent, or its last name when deleted.
func agentName(d data, id string) (string, error) {
	agent, ok, err := getJSON[store.Agent](d.in(inAgents), id)
	if err != nil || ok {
		return agent.Name, err
	}
	return string(d.in(inAgentsFormer).Get([]byte(id))), nil
}

// knownAgent rejects an id in a request body that is not an agent of the tenant.
func knownAgent(d data, id string) error {
	if id == "" || d.in(inAgents).Get([]byte(id)) == nil {
		return store.FieldError(store.Invalid, "unknown agent", "agentId", "is not an agent of this tenant")
	}
	return nil
}

// CreateAgent creates an agent.
func (t *tenant) CreateAgent(ctx context.Context, in store.AgentCreate) (store.Agent, error) {
	return createOne(ctx, t, agents, func(d data, id string, now time.Time) (store.Agent, error) {
		return in.Make(id, now), t.deploy(d, id, in.ConfigYAML, in.DeployedBy, now)
	})
}

// deploy sets the current configuration of an agent and appends it to the agent's
// history. An unchanged configuration, and an empty first one, are ignored.
func (t *tenant) deploy(d data, agentID, config, by string, now time.Time) error {
	if config == string(d.in(inAgentConfigs).Get([]byte(agentID))) {
		return nil
	}
	if err := d.in(inAgentConfigs).Put([]byte(agentID), []byte(config)); err != nil {
		return err
	}
	dep := store.Deployment{ID: t.s.ids.New(store.PrefixDeployment, now), AgentID: agentID,
		ConfigYAML: config, DeployedBy: by, DeployedAt: now}
	return putJSON(d.in(inDeployments), string(joined(agentID, dep.ID)), dep)
}

// UpdateAgent changes an agent.
func (t *tenant) UpdateAgent(ctx context.Context, id string, up store.AgentUpdate) (store.Agent, error) {
	return updateOne(ctx, t, agents, id, func(d data, a *store.Agent, now time.Time) error {
		up.Apply(a, now)
		if up.ConfigYAML == nil {
			return nil
		}
		return t.deploy(d, id, *up.ConfigYAML, up.DeployedBy, now)
	})
}

// DeleteAgent removes an agent, its tools and its history.
func (t *tenant) DeleteAgent(ctx context.Context, id string) error {
	return deleteOne(ctx, t, agents, id)
}

// dropAgent removes the data of an agent, except its last name.
func dropAgent(d data, agent *store.Agent) error {
	id := agent.ID
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
	if err := deletePrefix(d.in(inDeployments), joined(id, "")); err != nil {
		return err
	}
	if n, ok := d.lookup(agentWord(id, "")); ok {
		if err := deletePrefix(d.in(inTools), toolRow(n, 0)[:4]); err != nil {
			return err
		}
	}
	if err := d.in(inAgentsFormer).Put([]byte(id), []byte(agent.Name)); err != nil {
		return err
	}
	if err := dropAliases(d, id, 0); err != nil {
		return err
	}
	return d.in(inAgentConfigs).Delete([]byte(id))
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

// maxTools bounds the tools stored per agent, because tool names come from outside.
const maxTools = 1000

// A tool is stored as three numbers: the time of its first and of its last call,
// nanoseconds, and a varint count. Its id depends only on properties that never
// change. The key with tool 0 holds how many tools the agent has.

func toolRow(agent, tool uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(make([]byte, 0, 8), agent), tool)
}

// countTool adds calls to a tool of an agent.
func countTool(tools *bbolt.Bucket, rows cursorGetter, agent, tool uint32, calls toolCalls, now time.Time) error {
	key := toolRow(agent, tool)
	first, last, n := uint64(now.UnixNano()), uint64(calls.last), calls.n
	if old := rows.get(key); old != nil {
		oldFirst, oldLast, oldN, err := decodeTool(old)
		if err != nil {
			return err
		}
		first, last, n = oldFirst, max(last, oldLast), n+oldN
	} else {
		counter := toolRow(agent, 0)
		known := number(tools.Get(counter))
		if known >= maxTools {
			return nil
		}
		if err := tools.Put(counter, bytes8(known+1)); err != nil {
			return err
		}
	}
	val := make([]byte, 0, 24)
	val = binary.BigEndian.AppendUint64(val, first)
	val = binary.BigEndian.AppendUint64(val, last)
	return tools.Put(key, binary.AppendUvarint(val, n))
}

func decodeTool(b []byte) (first, last, n uint64, err error) {
	if len(b) > 16 {
		var size int
		if n, size = binary.Uvarint(b[16:]); size > 0 {
			return binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), n, nil
		}
	}
	return 0, 0, 0, errors.New("damaged tool")
}

// ListTools returns the tools of an agent, newest first.
func (t *tenant) ListTools(ctx context.Context, agentID string, page store.Page) (list []store.AgentTool, total int, err error) {
	list = []store.AgentTool{}
	type row struct {
		store.AgentTool
		first uint64
		tool  uint32
	}
	var rows []row
	err = t.view(ctx, func(d data) error {
		agent, known := d.lookup(agentWord(agentID, ""))
		if !known {
			return nil
		}
		text := dictReader{d: d}
		prefix := toolRow(agent, 0)[:4]
		c := d.in(inTools).Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			tool := binary.BigEndian.Uint32(k[4:])
			if tool == 0 {
				continue
			}
			first, last, n, err := decodeTool(v)
			if err != nil {
				return err
			}
			name := text.get(kindTool, tool)
			rows = append(rows, row{store.AgentTool{ID: store.ToolID(agentID, name), AgentID: agentID, ToolName: name,
				CallCount: int64(n), LastCalledAt: timeOf(last)}, first, tool})
		}
		slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(b.first, a.first), cmp.Compare(b.tool, a.tool)) })
		total = len(rows)
		from, to := page.Bounds(total)
		for _, r := range rows[from:to] {
			list = append(list, r.AgentTool)
		}
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
