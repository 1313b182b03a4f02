package clickhouse

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"svc/store"
	"svc/store/rollup"
)

// use is the key of a counter: a tool of an agent, or a policy, whose agent is empty.
type use struct{ agent, tool string }

// counted is the first and the last call of a tool, and the number of calls.
type counted struct{ first, last, calls int64 }

func (c counted) add(o counted) counted {
	if c.calls == 0 {
		return o
	}
	return counted{min(c.first, o.first), max(c.last, o.last), rollup.AddCap(c.calls, o.calls)}
}

// uses adds up the counters of a generation and of the traces after it, up to a
// position. lookBack is how far before the generation's position rows of the same traces
// are looked for; merged and unmerged are additional conditions.
func (t *tenant) uses(ctx context.Context, sh *shard, g *generation, upTo, lookBack int64, tools, policies bool, merged, unmerged string) (map[use]counted, error) {
	sum := map[use]counted{}
	var u use
	var c counted
	into := []any{&u.agent, &u.tool, &c.first, &c.last, &c.calls}
	add := func() error {
		sum[u] = sum[u].add(c)
		return nil
	}
	if g.version != 0 {
		if err := sh.rows(ctx, fmt.Sprintf("SELECT agent, tool, first, last, calls FROM uses WHERE tenant = %s AND version = %d%s", quote(t.id), g.version, merged), into, add); err != nil {
			return nil, err
		}
	}
	if tools {
		err := sh.rows(ctx, fmt.Sprintf("SELECT agent, name, min(seq), max(created), sum(n) FROM %s ARRAY JOIN call_tools AS name, call_counts AS n GROUP BY agent, name",
			t.since(g.seq, lookBack, upTo, unmerged)), into, add)
		if err != nil {
			return nil, err
		}
	}
	if policies {
		err := sh.rows(ctx, fmt.Sprintf("SELECT '' AS nobody, policy, min(seq), max(created), toInt64(count()) FROM %s ARRAY JOIN policies AS policy GROUP BY policy",
			t.since(g.seq, lookBack, upTo, unmerged)), into, add)
		if err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// PolicyFires returns how many traces each policy fired in.
func (t *tenant) PolicyFires(ctx context.Context, ids []string) (fires map[string]int64, err error) {
	err = t.on(ctx, func(sh *shard) error {
		fires = make(map[string]int64, len(ids))
		if len(ids) == 0 {
			return nil
		}
		g, err := t.newestGeneration(ctx, sh)
		if err != nil {
			return err
		}
		all, err := t.uses(ctx, sh, &g, math.MaxInt64, 0, false, true, " AND agent = '' AND tool IN ("+quoted(ids)+")", " AND notEmpty(policies)")
		for _, id := range ids {
			if n := all[use{"", id}].calls; n > 0 {
				fires[id] = n
			}
		}
		return err
	})
	return fires, err
}

// maxTools bounds the tools stored per agent, because tool names come from outside.
const maxTools = 1000

// ListTools returns the tools that traces of an agent named, newest first.
func (t *tenant) ListTools(ctx context.Context, agentID string, page store.Page) (list []store.AgentTool, total int, err error) {
	list = []store.AgentTool{}
	err = t.on(ctx, func(sh *shard) error {
		if agentID == "" {
			return nil
		}
		g, err := t.newestGeneration(ctx, sh)
		if err != nil {
			return err
		}
		agent := " AND agent = " + quote(agentID)
		uses, err := t.uses(ctx, sh, &g, math.MaxInt64, 0, true, false, agent, agent)
		if err != nil {
			return err
		}
		names := firstTools(uses, agentID)
		slices.Reverse(names)
		total = len(names)
		from, to := page.Bounds(total)
		for _, name := range names[from:to] {
			c := uses[use{agentID, name}]
			list = append(list, store.AgentTool{ID: store.ToolID(agentID, name), AgentID: agentID, ToolName: name, CallCount: c.calls, LastCalledAt: timeOf(c.last)})
		}
		return nil
	})
	return list, total, err
}

// firstTools returns the first tools of an agent up to the bound, in the order of their
// first call.
func firstTools(uses map[use]counted, agent string) []string {
	var names []string
	for u := range uses {
		if u.agent == agent {
			names = append(names, u.tool)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(uses[use{agent, a}].first, uses[use{agent, b}].first), cmp.Compare(a, b))
	})
	return names[:min(len(names), maxTools)]
}
