package clickhouse

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"svc/store"
	"svc/store/rollup"
)

// plan is the rows of rollups that answer a query about a window.
func (t *tenant) plan(ctx context.Context, sh *shard, q rollup.Query) (rollup.Plan, error) {
	var from int64
	err := sh.row(ctx, "SELECT max(minutes) FROM horizons WHERE tenant = "+quote(t.id), &from)
	if from > 0 {
		q.MinutesFrom = timeOf(from)
	}
	return rollup.NewPlan(q), err
}

// ranges selects the rows of a plan.
func ranges(p rollup.Plan) string {
	var b strings.Builder
	for i, r := range p.Ranges {
		if i > 0 {
			b.WriteString(" OR ")
		}
		fmt.Fprintf(&b, "(tbl = %d AND bucket >= %d AND bucket < %d)", r.Table, r.From, r.To)
	}
	return "(" + b.String() + ")"
}

// within selects the traces that were created in the window of a plan.
func within(p rollup.Plan) string {
	return fmt.Sprintf("created >= %d AND created < %d", nanos(p.From), nanos(p.To))
}

// Stats aggregates the traces of a window.
func (t *tenant) Stats(ctx context.Context, q store.StatsQuery) (out store.Stats, err error) {
	by, err := rollup.ResultDimension(&q)
	if err != nil {
		return out, err
	}
	var p rollup.Plan
	groups := sumsOf{}
	err = t.on(ctx, func(sh *shard) (err error) {
		p, err = t.plan(ctx, sh, rollup.Query{From: q.From, To: q.To, By: by, OneAgent: q.AgentID != ""})
		if err != nil || len(p.Ranges) == 0 {
			return err
		}
		return t.sum(ctx, sh, p, by, q.AgentID, groups)
	})
	if err != nil {
		return out, err
	}
	return rollup.Result(p, by, groups, func(ids []string) (map[string]string, error) { return t.s.opts.Agents(t.id).AgentNames(ctx, ids) })
}

// sum aggregates a window by the words of a dimension: merged rows, and traces after
// them.
func (t *tenant) sum(ctx context.Context, sh *shard, p rollup.Plan, by rollup.Dimension, agent string, groups sumsOf) error {
	g, err := t.newestGeneration(ctx, sh)
	if err != nil {
		return err
	}
	column, expression := "''", "''"
	switch by {
	case rollup.Agent:
		column, expression = "agent", agentSQL
	case rollup.Model:
		column, expression = "model", modelSQL
	case rollup.Environment:
		column, expression = "env", "env"
	case rollup.Tool, rollup.Rule, rollup.Client:
		column = "env"
	}
	merged, unmerged := "", ""
	if agent != "" {
		merged, unmerged = " AND agent = "+quote(rollup.AgentWord(agent, "")), " AND agent = "+quote(agent)
	}
	// The merged rows and the unmerged traces are read concurrently.
	read := make(chan error, 1)
	go func() { read <- t.addMerged(ctx, sh, &g, p, column, merged, groups) }()
	recent := sumsOf{}
	if by < rollup.Tool {
		err = t.addUnmerged(ctx, sh, &g, p, expression, unmerged, recent)
	} else {
		err = t.addUnmergedNames(ctx, sh, &g, p, by, recent)
	}
	if err := cmp.Or(<-read, err); err != nil {
		return err
	}
	for word, sum := range recent {
		groups.of(word).Merge(sum)
	}
	return nil
}

// sumsOf holds sums by the words of a dimension.
type sumsOf map[string]*rollup.Sum

func (m sumsOf) of(word string) *rollup.Sum {
	s := m[word]
	if s == nil {
		s = new(rollup.Sum)
		m[word] = s
	}
	return s
}

// addMerged adds the rows of a generation that a plan selects.
func (t *tenant) addMerged(ctx context.Context, sh *shard, g *generation, p rollup.Plan, column, extra string, groups sumsOf) error {
	days, some := g.rows(dayOfTime(p.From), dayOfTime(p.To))
	if !some {
		return nil
	}
	var word, data string
	return sh.rows(ctx, fmt.Sprintf("SELECT %s, data FROM rollups WHERE tenant = %s AND %s AND %s%s", column, quote(t.id), ranges(p), days, extra),
		[]any{&word, &data}, func() error { return groups.of(word).Add([]byte(data), true) })
}

// addUnmerged adds the traces of a window that were committed after a generation.
func (t *tenant) addUnmerged(ctx context.Context, sh *shard, g *generation, p rollup.Plan, expression, extra string, groups sumsOf) error {
	var word string
	var row sums
	var data []byte
	return sh.rows(ctx, fmt.Sprintf("SELECT %s AS word, %s FROM %s WHERE %s GROUP BY word, bin", expression, sumsSQL,
		t.unmerged(g, math.MaxInt64, extra), within(p)), append([]any{&word}, row.list()...), func() error {
		partial := row.partial()
		data = partial.Append(data[:0])
		return groups.of(word).Add(data, true)
	})
}

// Spend returns the cost of agents' traces in windows, each trace once.
func (t *tenant) Spend(ctx context.Context, q []store.SpendQuery) (spent []store.NanoUSD, err error) {
	err = t.on(ctx, func(sh *shard) error {
		spent = make([]store.NanoUSD, len(q))
		if len(q) == 0 {
			return nil
		}
		g, err := t.newestGeneration(ctx, sh)
		if err != nil {
			return err
		}
		type window struct{ from, to time.Time }
		windows := map[window][]int{} // budgets of the same period share a query
		var agents []string
		for i := range q {
			if q[i].AgentID != "" {
				w := window{q[i].From, q[i].To}
				windows[w] = append(windows[w], i)
				agents = append(agents, q[i].AgentID)
			}
		}
		if len(agents) == 0 {
			return nil
		}
		type minute struct {
			agent string
			at    uint32
		}
		recent := map[minute]int64{}
		var m minute
		var cost int64
		err = sh.rows(ctx, fmt.Sprintf("SELECT agent, %s AS minute, sum(cost) FROM %s WHERE seq > %d GROUP BY agent, minute", minuteSQL,
			t.unmerged(&g, math.MaxInt64, " AND agent IN ("+quoted(agents)+")"), g.seq), []any{&m.agent, &m.at, &cost}, func() error {
			recent[m] = cost
			return nil
		})
		if err != nil {
			return err
		}
		for w, asked := range windows {
			p, err := t.plan(ctx, sh, rollup.Query{From: w.from, To: w.to, OneAgent: true})
			if err != nil {
				return err
			}
			byAgent := map[string]int64{}
			for m, cost := range recent {
				if at := rollup.ByMinute.Start(m.at); !at.Before(p.From) && at.Before(p.To) {
					byAgent[m.agent] = rollup.AddCap(byAgent[m.agent], cost)
				}
			}
			if err := t.mergedCost(ctx, sh, &g, p, q, asked, byAgent); err != nil {
				return err
			}
			for _, i := range asked {
				spent[i] = store.NanoUSD(byAgent[q[i].AgentID])
			}
		}
		return nil
	})
	return spent, err
}

// mergedCost adds the agents' costs in merged rows.
func (t *tenant) mergedCost(ctx context.Context, sh *shard, g *generation, p rollup.Plan, q []store.SpendQuery, asked []int, byAgent map[string]int64) error {
	days, some := g.rows(dayOfTime(p.From), dayOfTime(p.To))
	if !some || len(p.Ranges) == 0 {
		return nil
	}
	words := make([]string, 0, len(asked))
	for _, i := range asked {
		words = append(words, rollup.AgentWord(q[i].AgentID, ""))
	}
	var word string
	var cost int64
	return sh.rows(ctx, fmt.Sprintf("SELECT agent, sum(cost) FROM rollups WHERE tenant = %s AND %s AND %s AND agent IN (%s) GROUP BY agent",
		quote(t.id), ranges(p), days, quoted(words)), []any{&word, &cost}, func() error {
		id := strings.TrimPrefix(word, "i")
		byAgent[id] = rollup.AddCap(byAgent[id], cost)
		return nil
	})
}
