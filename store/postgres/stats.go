package postgres

import (
	"context"
	"fmt"
	"time"

	"svc/store"
	"svc/store/record"
	"svc/store/rollup"
)

// window is the subject of a statistics query: all traces, or those of an agent, in a
// range of time.
type window struct {
	from, to time.Time
	by       rollup.Dimension
	agent    string // the agent's word; empty: all agents
	env      string // an environment; empty: all
}

// plan is the rows of rollups that answer a query about a window.
func (d *data) plan(w window) (rollup.Plan, error) {
	var from int64
	_, err := d.one([]any{&from}, `SELECT minutes_from FROM trace_state WHERE tenant = $1`, d.n)
	return rollup.NewPlan(rollup.Query{From: w.from, To: w.to, By: w.by, OneAgent: w.agent != "", MinutesFrom: timeOf(from)}), err
}

// word returns the number of a value of a dimension; false when no merged row has it.
func (d *data) word(word string) (n int64, ok bool, err error) {
	if word == "" {
		return 0, true, nil
	}
	ok, err = d.one([]any{&n}, `SELECT n FROM rollup_words WHERE tenant = $1 AND word = $2`, d.n, []byte(word))
	return n, ok, err
}

// buckets returns a range of buckets as SQL. For a single agent it is a list, so that
// its rows are found bucket by bucket.
func buckets(r rollup.Range, one bool, args []any) (string, []any) {
	if !one {
		return fmt.Sprintf(`bucket >= $%d AND bucket < $%d`, len(args)+1, len(args)+2), append(args, int64(r.From), int64(r.To))
	}
	list := make([]int64, 0, r.To-r.From)
	for b := r.From; b < r.To; b++ {
		list = append(list, int64(b))
	}
	return fmt.Sprintf(`bucket = ANY($%d)`, len(args)+1), append(args, list)
}

// merged calls fn with every merged row of a plan.
func (d *data) merged(p rollup.Plan, w window, fn func(agent, model, env int64, row []byte) error) error {
	number, known, err := int64(0), true, error(nil)
	if w.agent != "" {
		if number, known, err = d.word(w.agent); err != nil || !known {
			return err
		}
	}
	for _, r := range p.Ranges {
		in, args := buckets(r, w.agent != "", []any{d.n, int16(r.Table)})
		if w.agent != "" {
			args = append(args, number)
			in += fmt.Sprintf(` AND agent = $%d`, len(args))
		}
		var agent, model, env int64
		var row []byte
		err := d.each([]any{&agent, &model, &env, &row}, func() error { return fn(agent, model, env, row) },
			`SELECT agent, model, env, data FROM rollups WHERE tenant = $1 AND tbl = $2 AND `+in, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// unmerged returns the statistics of batches that are not merged yet and overlap a
// range of time.
func (d *data) unmerged(from, to time.Time) (*delta, error) {
	sum := emptyDelta()
	var raw []byte
	err := d.each([]any{&raw}, func() error { return sum.addEncoded(raw) },
		`SELECT data FROM rollup_deltas WHERE tenant = $1 AND newest >= $2 AND oldest < $3`,
		d.n, int64(rollup.ByMinute.Bucket(from)), int64(rollup.ByMinute.Bucket(to.Add(time.Minute-1))))
	return sum, err
}

// within calls fn with the minutes of a delta that are in a window.
func (s *delta) within(p rollup.Plan, w window, fn func(e *rollup.Entry) error) error {
	for i := range s.minutes {
		e := &s.minutes[i]
		at := rollup.ByMinute.Start(e.Key.Bucket)
		if at.Before(p.From) || !at.Before(p.To) || w.agent != "" && s.words.list[e.Key.Agent] != w.agent ||
			w.env != "" && s.words.list[e.Key.Env] != w.env {
			continue
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// groups are sums by the values of a dimension; sums of merged rows are first keyed by
// number.
type groups struct {
	by      rollup.Dimension
	numbers map[int64]*rollup.Sum
	words   map[string]*rollup.Sum
}

func (g *groups) of(agent, model, env int64) int64 {
	switch g.by {
	case rollup.Agent:
		return agent
	case rollup.Model:
		return model
	case rollup.Environment:
		return env
	}
	return 0
}

// named moves the sums of merged rows from their numbers to their words.
func (g *groups) named(d *data) error {
	wanted := make([]int64, 0, len(g.numbers))
	for n := range g.numbers {
		wanted = append(wanted, n)
	}
	names := map[int64]string{0: ""}
	if g.by != rollup.None && len(wanted) > 0 {
		var n int64
		var word []byte
		err := d.each([]any{&n, &word}, func() error {
			names[n] = string(word)
			return nil
		}, `SELECT n, word FROM rollup_words WHERE tenant = $1 AND n = ANY($2)`, d.n, wanted)
		if err != nil {
			return err
		}
	}
	for n, sum := range g.numbers {
		word, ok := names[n]
		if !ok {
			return fmt.Errorf("statistics with the unknown dimension number %d", n)
		}
		g.sum(word).Merge(sum)
	}
	return nil
}

func (g *groups) sum(word string) *rollup.Sum {
	s := g.words[word]
	if s == nil {
		s = new(rollup.Sum)
		g.words[word] = s
	}
	return s
}

// sums aggregates a window.
func (d *data) sums(w window) (p rollup.Plan, g *groups, err error) {
	g = &groups{by: w.by, numbers: map[int64]*rollup.Sum{}, words: map[string]*rollup.Sum{}}
	if p, err = d.plan(w); err != nil || len(p.Ranges) == 0 {
		return p, g, err
	}
	err = d.merged(p, w, func(agent, model, env int64, row []byte) error {
		n := g.of(agent, model, env)
		s := g.numbers[n]
		if s == nil {
			s = new(rollup.Sum)
			g.numbers[n] = s
		}
		return s.Add(row, true)
	})
	if err != nil {
		return p, g, err
	}
	if err = g.named(d); err != nil {
		return p, g, err
	}
	rest, err := d.unmerged(p.From, p.To)
	if err != nil {
		return p, g, err
	}
	var row []byte
	err = rest.within(p, w, func(e *rollup.Entry) error {
		word := ""
		if w.by != rollup.None {
			word = rest.words.list[g.of(int64(e.Key.Agent), int64(e.Key.Model), int64(e.Key.Env))]
		}
		row = e.Partial.Append(row[:0])
		return g.sum(word).Add(row, true)
	})
	return p, g, err
}

// Stats aggregates the traces of a window.
func (t *tenant) Stats(ctx context.Context, q store.StatsQuery) (out store.Stats, err error) {
	by, err := rollup.ResultDimension(q.GroupBy)
	if err != nil {
		return out, err
	}
	w := window{from: q.From, to: q.To, by: by}
	if q.AgentID != "" {
		w.agent = agentWord(q.AgentID, "")
	}
	err = t.read(ctx, func(d *data) error {
		plan, g, err := d.sums(w)
		if err != nil {
			return err
		}
		out = store.Stats{From: plan.From, To: plan.To, Groups: []store.StatsGroup{}}
		var all rollup.Sum
		for word, sum := range g.words {
			all.Merge(sum)
			if by != rollup.None {
				group := rollup.Group(by, word)
				group.Totals = rollup.Totals(sum)
				out.Groups = append(out.Groups, group)
			}
		}
		out.Summary = rollup.Totals(&all)
		return d.nameGroups(out.Groups)
	})
	rollup.Sort(out.Groups)
	return out, err
}

// nameGroups sets the current names of agents.
func (d *data) nameGroups(list []store.StatsGroup) error {
	var ids []string
	for i := range list {
		if list[i].AgentID != "" {
			ids = append(ids, list[i].AgentID)
		}
	}
	names, err := record.AgentNames(d, ids)
	for i := range list {
		if name, ok := names[list[i].AgentID]; ok {
			list[i].AgentName = name
		}
	}
	return err
}
