package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"svc/store"
	"svc/store/rollup"
)

// Spend returns the cost of agents' traces in windows.
func (t *tenant) Spend(ctx context.Context, q []store.SpendQuery) (spent []store.NanoUSD, err error) {
	err = t.read(ctx, func(d *data) error {
		spent = make([]store.NanoUSD, len(q))
		var earliest, latest time.Time
		for i := range q {
			if i == 0 || q[i].From.Before(earliest) {
				earliest = q[i].From
			}
			if i == 0 || q[i].To.After(latest) {
				latest = q[i].To
			}
		}
		if len(q) == 0 {
			return nil
		}
		rest, err := d.unmerged(earliest.Add(-time.Hour), latest.Add(time.Hour))
		if err != nil {
			return err
		}
		for i := range q {
			if q[i].AgentID != "" {
				if spent[i], err = d.spentBy(&q[i], rest); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return spent, err
}

func (d *data) spentBy(q *store.SpendQuery, rest *delta) (store.NanoUSD, error) {
	w := window{from: q.From, to: q.To, agent: agentWord(q.AgentID, "")}
	plan, err := d.plan(w)
	if err != nil {
		return 0, err
	}
	sum, err := d.sumOf(plan, w, "cost")
	if err != nil {
		return 0, err
	}
	err = rest.within(plan, w, func(e *rollup.Entry) error {
		sum = addCap(sum, e.Partial.Cost)
		return nil
	})
	return store.NanoUSD(sum), err
}

func addCap(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxInt64
}

// sumOf returns the SQL of the sum of a counter over the merged rows of a plan.
func (d *data) sumOf(p rollup.Plan, w window, counter string) (sum int64, err error) {
	agent, known, err := d.word(w.agent)
	if err != nil || !known {
		return 0, err
	}
	env, known, err := d.word(w.env)
	if err != nil || !known {
		return 0, err
	}
	for _, r := range p.Ranges {
		in, args := buckets(r, w.agent != "", []any{d.n, int16(r.Table)})
		for _, one := range [...]struct {
			column string
			number int64
		}{{"agent", agent}, {"env", env}} {
			if one.number != 0 {
				args = append(args, one.number)
				in += fmt.Sprintf(` AND %s = $%d`, one.column, len(args))
			}
		}
		var n int64
		_, err := d.one([]any{&n}, `SELECT least(coalesce(sum(`+counter+`), 0), 9223372036854775807)::bigint FROM rollups
			WHERE tenant = $1 AND tbl = $2 AND `+in, args...)
		if err != nil {
			return 0, err
		}
		sum = addCap(sum, n)
	}
	return sum, nil
}

// PolicyFires returns how many traces each policy fired in.
func (t *tenant) PolicyFires(ctx context.Context, ids []string) (fires map[string]int64, err error) {
	err = t.read(ctx, func(d *data) error {
		fires = make(map[string]int64, len(ids))
		var id []byte
		var n int64
		err := d.each([]any{&id, &n}, func() error {
			fires[string(id)] = n
			return nil
		}, `SELECT policy, n FROM policy_fires WHERE tenant = $1 AND policy = ANY($2)`, d.n, texts(ids))
		if err != nil {
			return err
		}
		rest, err := d.allUnmerged()
		if err != nil {
			return err
		}
		for _, id := range ids {
			if n := rest.fires[id]; n > 0 && !slices.Contains(ids[:slices.Index(ids, id)], id) {
				fires[id] += n
			}
		}
		return nil
	})
	return fires, err
}

func (d *data) allUnmerged() (*delta, error) {
	sum := emptyDelta()
	var raw []byte
	err := d.each([]any{&raw}, func() error { return sum.addEncoded(raw) }, `SELECT data FROM rollup_deltas WHERE tenant = $1`, d.n)
	return sum, err
}

// maxTools bounds the tools stored per agent, because tool names come from outside.
const maxTools = 1000

// ListTools returns the tools that traces of an agent named, newest first.
func (t *tenant) ListTools(ctx context.Context, agentID string, page store.Page) (list []store.AgentTool, total int, err error) {
	err = t.read(ctx, func(d *data) error {
		uses := map[string]toolUse{}
		var tool []byte
		var u toolUse
		err := d.each([]any{&tool, &u.first, &u.last, &u.calls}, func() error {
			uses[string(tool)] = u
			return nil
		}, `SELECT tool, first, last, calls FROM tools WHERE tenant = $1 AND agent = $2`, d.n, []byte(agentID))
		if err != nil {
			return err
		}
		rest, err := d.allUnmerged()
		if err != nil {
			return err
		}
		for k, u := range rest.tools {
			if k.agent == agentID {
				uses[k.tool] = uses[k.tool].add(u)
			}
		}
		names := make([]string, 0, len(uses))
		for name := range uses {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(uses[a].first, uses[b].first), cmp.Compare(a, b)) })
		names = names[:min(len(names), maxTools)]
		slices.Reverse(names)
		total = len(names)
		from, to := page.Bounds(total)
		list = []store.AgentTool{}
		for _, name := range names[from:to] {
			u := uses[name]
			list = append(list, store.AgentTool{ID: store.ToolID(agentID, name), AgentID: agentID, ToolName: name, CallCount: u.calls, LastCalledAt: timeOf(u.last)})
		}
		return nil
	})
	return list, total, err
}
