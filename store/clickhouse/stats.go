package clickhouse

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

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
		column, expression = "env", envSQL
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

// Spend returns the cost of traces in windows, each trace once.
func (t *tenant) Spend(ctx context.Context, q []store.SpendQuery) (spent []store.NanoUSD, err error) {
	err = t.on(ctx, func(sh *shard) error {
		g, err := t.newestGeneration(ctx, sh)
		if err != nil {
			return err
		}
		spent, err = rollup.Spend(q, func(q rollup.Query, agents []string) (map[string]int64, error) {
			return t.costs(ctx, sh, &g, q, agents)
		})
		return err
	})
	return spent, err
}

// costs returns the costs of a window by the words of a dimension: of merged rows, and of the
// traces after them.
func (t *tenant) costs(ctx context.Context, sh *shard, g *generation, q rollup.Query, agents []string) (map[string]int64, error) {
	p, err := t.plan(ctx, sh, q)
	if err != nil || len(p.Ranges) == 0 {
		return nil, err
	}
	column, expression, merged, unmerged := "env", envSQL, "", ""
	if q.By == rollup.Agent {
		words := make([]string, len(agents))
		for i, id := range agents {
			words[i] = rollup.AgentWord(id, "")
		}
		column, expression, merged, unmerged = "agent", agentSQL, " AND agent IN ("+quoted(words)+")", " AND agent IN ("+quoted(agents)+")"
	}
	costs := map[string]int64{}
	var word string
	var cost int64
	add := func() error {
		costs[word] = rollup.AddCap(costs[word], cost)
		return nil
	}
	err = sh.rows(ctx, fmt.Sprintf("SELECT %s AS word, sum(cost) FROM %s WHERE %s GROUP BY word", expression,
		t.unmerged(g, math.MaxInt64, unmerged), within(p)), []any{&word, &cost}, add)
	if days, some := g.rows(dayOfTime(p.From), dayOfTime(p.To)); some && err == nil {
		err = sh.rows(ctx, fmt.Sprintf("SELECT %s AS word, sum(cost) FROM rollups WHERE tenant = %s AND %s AND %s%s GROUP BY word",
			column, quote(t.id), ranges(p), days, merged), []any{&word, &cost}, add)
	}
	return costs, err
}
