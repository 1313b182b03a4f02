package record

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"svc/store"
)

// aliasRecord is a former name of an agent as it is stored.
type aliasRecord struct {
	Agent string
	At    int64 // when the agent was renamed, nanoseconds
}

// maxAliases bounds the former names stored per agent; beyond it the oldest is removed.
const maxAliases = 16

// claimAgentName takes a unique name for an agent. The agent's previous name becomes an
// alias. If the new name was an alias of any agent, that alias is removed.
func claimAgentName(tx Tx, old, name, id string, now time.Time) error {
	if err := claimName(tx, agentNames, "agent", old, name, id); err != nil {
		return err
	}
	if err := tx.Delete(agentAliases, []byte(name)); err != nil || old == "" {
		return err
	}
	return addAlias(tx, old, id, now)
}

// addAlias adds a former name of an agent.
func addAlias(tx Tx, name, id string, now time.Time) error {
	if err := put(tx, agentAliases, []byte(name), aliasRecord{id, now.UnixNano()}); err != nil {
		return err
	}
	return dropAliases(tx, id, maxAliases)
}

// dropAliases removes the oldest aliases of an agent until it has at most n.
func dropAliases(tx Tx, id string, n int) error {
	type alias struct {
		name string
		at   int64
	}
	var own []alias
	if err := tx.Scan(agentAliases, Range{Having: [][]byte{field("Agent", id)}}, func(key, value []byte) (bool, error) {
		var a aliasRecord
		if err := decode(key, value, &a); err != nil {
			return false, err
		}
		if a.Agent == id {
			own = append(own, alias{string(key), a.At})
		}
		return true, nil
	}); err != nil {
		return err
	}
	slices.SortFunc(own, func(a, b alias) int { return cmp.Or(cmp.Compare(b.at, a.at), strings.Compare(b.name, a.name)) })
	for _, a := range own[min(n, len(own)):] {
		if err := tx.Delete(agentAliases, []byte(a.name)); err != nil {
			return err
		}
	}
	return nil
}

// ListAgentAliases returns the former names that still resolve to an agent.
func (t *Tenant) ListAgentAliases(ctx context.Context) (list []store.AgentAlias, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		list, err = aliasesOf(tx)
		return err
	})
	return list, err
}

func aliasesOf(tx Tx) ([]store.AgentAlias, error) {
	list := []store.AgentAlias{}
	err := tx.Scan(agentAliases, Range{}, func(key, value []byte) (bool, error) {
		var a aliasRecord
		err := decode(key, value, &a)
		list = append(list, store.AgentAlias{Alias: string(key), AgentID: a.Agent})
		return true, err
	})
	if err != nil {
		return nil, err
	}
	return list, nameAgents(tx, list, func(a *store.AgentAlias) (string, *string) { return a.AgentID, &a.AgentName })
}

// nameAgents sets the agent names of a list. agent returns an agent's id and a pointer to
// the field for its name. The name of an unknown agent is empty.
func nameAgents[T any](tx Tx, list []T, agent func(*T) (id string, name *string)) error {
	ids := make([]string, len(list))
	for i := range list {
		ids[i], _ = agent(&list[i])
	}
	names, err := AgentNames(tx, ids)
	for i := range list {
		id, name := agent(&list[i])
		*name = names[id]
	}
	return err
}

// AgentNames returns the current names of agents, and the last names of deleted ones.
func AgentNames(tx Tx, ids []string) (map[string]string, error) {
	names := make(map[string]string, len(ids))
	var keys [][]byte
	for _, id := range ids {
		if _, seen := names[id]; !seen && id != "" {
			names[id] = ""
			keys = append(keys, []byte(id))
		}
	}
	values, err := tx.Many(AgentRows, keys)
	if err != nil {
		return nil, err
	}
	var gone [][]byte
	for i, value := range values {
		if value == nil {
			gone = append(gone, keys[i])
			continue
		}
		var a struct{ Name string } // of many rows: other fields are not decoded
		if err := decode(keys[i], value, &a); err != nil {
			return nil, err
		}
		names[string(keys[i])] = a.Name
	}
	last, err := tx.Many(agentsFormer, gone)
	for i, name := range last {
		if names[string(gone[i])] = string(name); name == nil {
			delete(names, string(gone[i]))
		}
	}
	return names, err
}

// AgentNames returns the current names of agents, and the last names of deleted ones.
func (t *Tenant) AgentNames(ctx context.Context, ids []string) (names map[string]string, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		names, err = AgentNames(tx, ids)
		return err
	})
	return names, err
}
