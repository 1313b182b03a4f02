package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"svc/store"
)

// maxAliases bounds the former names stored per agent; beyond it the oldest is
// removed.
const maxAliases = 16

// An alias is stored as the id of its agent and the time of the rename,
// nanoseconds, 8 bytes.

func aliasValue(id string, at time.Time) []byte {
	return append([]byte(id), bytes8(uint64(at.UnixNano()))...)
}

func splitAlias(v []byte) (id string, at uint64) {
	if len(v) < 8 {
		return "", 0
	}
	n := len(v) - 8
	return string(v[:n]), binary.BigEndian.Uint64(v[n:])
}

// claimAgentName takes a unique name for an agent. The agent's previous name
// becomes an alias. If the new name was an alias of any agent, that alias is
// removed.
func claimAgentName(d data, old, name, id string, now time.Time) error {
	if err := claimName(d.in(inAgentNames), "agent", old, name, id); err != nil || old == name {
		return err
	}
	aliases := d.in(inAgentAliases)
	if err := aliases.Delete([]byte(name)); err != nil || old == "" {
		return err
	}
	if err := aliases.Put([]byte(old), aliasValue(id, now)); err != nil {
		return err
	}
	return dropAliases(d, id, maxAliases)
}

// dropAliases removes the oldest aliases of an agent until it has at most n.
func dropAliases(d data, id string, n int) error {
	type alias struct {
		name []byte
		at   int64
	}
	var own []alias
	c := d.in(inAgentAliases).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if owner, at := splitAlias(v); owner == id {
			own = append(own, alias{bytes.Clone(k), int64(at)})
		}
	}
	sortNewest(own, func(a *alias) (int64, string) { return a.at, string(a.name) })
	for _, a := range own[min(n, len(own)):] {
		if err := d.in(inAgentAliases).Delete(a.name); err != nil {
			return err
		}
	}
	return nil
}

// agentByName finds the agent with a name or, if no agent has the name, with an
// alias.
func agentByName(d data, name string) (a agentKnown, ok bool, err error) {
	if id := d.in(inAgentNames).Get([]byte(name)); id != nil {
		return agentKnown{id: string(id), name: name}, true, nil
	}
	v := d.in(inAgentAliases).Get([]byte(name))
	if v == nil {
		return a, false, nil
	}
	id, _ := splitAlias(v)
	agent, ok, err := getJSON[store.Agent](d.in(inAgents), id)
	return agentKnown{id: id, name: agent.Name}, ok, err
}

// ListAgentAliases returns the former names that still resolve to an agent.
func (t *tenant) ListAgentAliases(ctx context.Context) (list []store.AgentAlias, err error) {
	err = t.view(ctx, func(d data) error {
		list, err = aliasesOf(d)
		return err
	})
	return list, err
}

func aliasesOf(d data) ([]store.AgentAlias, error) {
	list := []store.AgentAlias{}
	err := d.in(inAgentAliases).ForEach(func(k, v []byte) error {
		id, _ := splitAlias(v)
		name, err := agentName(d, id)
		list = append(list, store.AgentAlias{Alias: string(k), AgentID: id, AgentName: name})
		return err
	})
	return list, err
}
