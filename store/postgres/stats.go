package postgres

import (
	"context"
	"time"

	"svc/store"
	"svc/store/record"
	"svc/store/rollup"
)

// window is the subject of a statistics query: all traces, or those of some agents, in a
// range of time.
type window struct {
	from, to time.Time
	by       rollup.Dimension
	agents   [][]byte // words of agents; nil: all
	env      string   // an environment; empty: all
}

// plan is the rows of rollups that answer a query about a window.
func (d *data) plan(w window) (rollup.Plan, error) {
	var from int64
	_, err := d.one([]any{&from}, `SELECT minutes_from FROM trace_state WHERE tenant = $1`, d.n)
	return rollup.NewPlan(rollup.Query{From: w.from, To: w.to, By: w.by, OneAgent: w.agents != nil, MinutesFrom: timeOf(from)}), err
}

// selection selects the rows of a range of buckets, as far as all tables of statistics have
// the columns.
func (d *data) selection(w window) *selection {
	q := &selection{args: []any{d.n}}
	q.where.WriteString(`tenant = $1`)
	if w.agents != nil {
		q.and(`agent = ANY($%d)`, w.agents)
	}
	if w.env != "" {
		q.and(`(env = $%[1]d OR substring(env FROM 1 FOR length($%[1]d) + 1) = $%[1]d || '\x00'::bytea)`, []byte(w.env)) // of any team
	}
	return q
}

// counted calls fn with the rows of a window, merged and waiting ones; with the merged ones only for a dimension of names. The columns begin with
// the word of the dimension of the window; end is the rest of the statement.
func (d *data) counted(p rollup.Plan, w window, columns, end string, into []any, fn func() error) error {
	columns = [...]string{rollup.None: `''::bytea`, rollup.Agent: `agent`, rollup.Model: `model`, rollup.Environment: `env`, rollup.Tool: `env`, rollup.Rule: `env`, rollup.Client: `env`}[w.by] + `, ` + columns
	for _, r := range p.Ranges {
		q := d.selection(w)
		q.and(`tbl = $%d`, int16(r.Table))
		if w.agents == nil {
			q.and(`bucket >= $%d`, int64(r.From))
			q.and(`bucket < $%d`, int64(r.To))
		} else { // the rows of an agent are found bucket by bucket
			list := make([]int64, 0, r.To-r.From)
			for b := r.From; b < r.To; b++ {
				list = append(list, int64(b))
			}
			q.and(`bucket = ANY($%d)`, list)
		}
		if err := d.each(into, fn, `SELECT `+columns+` FROM rollups WHERE `+q.where.String()+end, q.args...); err != nil {
			return err
		}
	}
	if w.by >= rollup.Tool {
		return nil // see waitingNames
	}
	q := d.selection(w)
	q.and(`tbl = $%d`, int16(rollup.Minute))
	from, to := int64(rollup.ByMinute.Bucket(p.From)), int64(rollup.ByMinute.Bucket(p.To))
	q.and(`newest >= $%d`, from)
	q.and(`oldest < $%d`, to)
	q.and(`bucket >= $%d`, from)
	q.and(`bucket < $%d`, to)
	return d.each(into, fn, `SELECT `+columns+` FROM waiting_rollups WHERE `+q.where.String()+end, q.args...)
}

// sums aggregates a window by the words of its dimension.
func (d *data) sums(w window) (p rollup.Plan, sums map[string]*rollup.Sum, err error) {
	if p, err = d.plan(w); err != nil {
		return p, nil, err
	}
	sums = map[string]*rollup.Sum{}
	add := func(word string, row []byte) error {
		s := sums[word]
		if s == nil {
			s = new(rollup.Sum)
			sums[word] = s
		}
		return s.Add(row, true)
	}
	var word, row []byte
	if err := d.counted(p, w, `data`, ``, []any{&word, &row}, func() error { return add(string(word), row) }); err != nil || w.by < rollup.Tool {
		return p, sums, err
	}
	return p, sums, d.waitingNames(p, w.by, add)
}

// totals adds up a counter in a window by the words of its dimension. The counter is SQL.
func (d *data) totals(w window, counter string) (map[string]int64, error) {
	p, err := d.plan(w)
	if err != nil {
		return nil, err
	}
	totals := map[string]int64{}
	var word []byte
	var n int64
	err = d.counted(p, w, `least(sum(`+counter+`), 9223372036854775807)::bigint`, ` GROUP BY 1`, []any{&word, &n}, func() error {
		totals[string(word)] = rollup.AddCap(totals[string(word)], n)
		return nil
	})
	return totals, err
}

// Stats aggregates the traces of a window.
func (t *tenant) Stats(ctx context.Context, q store.StatsQuery) (out store.Stats, err error) {
	by, err := rollup.ResultDimension(&q)
	if err != nil {
		return out, err
	}
	w := window{from: q.From, to: q.To, by: by}
	if q.AgentID != "" {
		w.agents = [][]byte{[]byte(rollup.AgentWord(q.AgentID, ""))}
	}
	err = t.read(ctx, func(d *data) error {
		plan, sums, err := d.sums(w)
		if err != nil {
			return err
		}
		out, err = rollup.Result(plan, by, sums, func(ids []string) (map[string]string, error) { return record.AgentNames(d, ids) })
		return err
	})
	return out, err
}
