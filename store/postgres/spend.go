package postgres

import (
	"context"
	"slices"

	"svc/store"
	"svc/store/rollup"
)

// Spend returns the cost of traces in windows. Budgets of the same period share their queries.
func (t *tenant) Spend(ctx context.Context, q []store.SpendQuery) (spent []store.NanoUSD, err error) {
	err = t.read(ctx, func(d *data) error {
		spent, err = rollup.Spend(q, func(q rollup.Query, agents []string) (map[string]int64, error) {
			w := window{from: q.From, to: q.To, by: q.By}
			for _, id := range agents {
				w.agents = append(w.agents, []byte(rollup.AgentWord(id, "")))
			}
			return d.totals(w, `cost`)
		})
		return err
	})
	return spent, err
}

// PolicyFires returns how many traces each policy fired in.
func (t *tenant) PolicyFires(ctx context.Context, ids []string) (fires map[string]int64, err error) {
	err = t.read(ctx, func(d *data) error {
		fires = make(map[string]int64, len(ids))
		var id []byte
		var n int64
		return d.each([]any{&id, &n}, func() error {
			fires[string(id)] = n
			return nil
		}, `SELECT policy, sum(n)::bigint FROM (SELECT policy, n FROM policy_fires WHERE tenant = $1 AND policy = ANY($2)
			UNION ALL SELECT policy, n FROM waiting_fires WHERE tenant = $1 AND policy = ANY($2)) f GROUP BY policy`, d.n, texts(ids))
	})
	return fires, err
}

// maxTools bounds the tools stored per agent, because tool names come from outside.
const maxTools = 1000

// ListTools returns the tools that traces of an agent named, newest first.
func (t *tenant) ListTools(ctx context.Context, agentID string, page store.Page) (list []store.AgentTool, total int, err error) {
	err = t.read(ctx, func(d *data) error {
		list = []store.AgentTool{}
		var tool []byte
		var calls, last int64
		err := d.each([]any{&tool, &last, &calls}, func() error {
			list = append(list, store.AgentTool{ID: store.ToolID(agentID, string(tool)), AgentID: agentID, ToolName: string(tool), CallCount: calls, LastCalledAt: timeOf(last)})
			return nil
		}, `SELECT tool, max(last), least(sum(calls), 9223372036854775807)::bigint FROM (SELECT tool, first, last, calls FROM tools WHERE tenant = $1 AND agent = $2
			UNION ALL SELECT tool, first, last, calls FROM waiting_tools WHERE tenant = $1 AND agent = $2) u GROUP BY tool ORDER BY min(first), tool LIMIT $3`,
			d.n, []byte(agentID), maxTools)
		slices.Reverse(list)
		total = len(list)
		from, to := page.Bounds(total)
		list = list[from:to]
		return err
	})
	return list, total, err
}
