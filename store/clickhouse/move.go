package clickhouse

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"svc/store/move"
	"svc/store/record"
	"svc/store/rollup"
)

// Moved is a store of traces that a migration reads or fills.
type Moved struct{ *Store }

var _ move.TraceTarget = (*Moved)(nil)

// OpenTarget opens a store to fill it.
func OpenTarget(ctx context.Context, url string, opts Options) (*Moved, error) {
	opts.MergeEvery = -1
	s, err := Open(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	return &Moved{s}, nil
}

// moveWriter is the writer id of all traces of a migration. The migration chooses
// their positions, so that a retried batch gets the same positions again.
const moveWriter = 1

func (t *Moved) of(ctx context.Context, id string, fn func(tn *tenant, sh *shard) error) error {
	tn := &tenant{t.Store, id}
	return tn.on(ctx, func(sh *shard) error { return fn(tn, sh) })
}

// Empty returns an error unless all tables of all shards are empty.
func (t *Moved) Empty(ctx context.Context) error {
	return t.run(ctx, func() error {
		for _, sh := range t.shards {
			for _, table := range []string{"traces", "rollups", "generations", "horizons", "homes"} {
				var n uint64
				if err := sh.row(ctx, "SELECT count() FROM "+table, &n); err != nil {
					return err
				}
				if n > 0 {
					return fmt.Errorf("%w: table %s on %s has %d rows", move.ErrNotEmpty, table, sh.name, n)
				}
			}
		}
		return nil
	})
}

// ImportState writes the retention cutoffs of a tenant.
func (t *Moved) ImportState(ctx context.Context, id string, state move.State) error {
	if state.Horizon == 0 && state.MinutesFrom == 0 {
		return nil
	}
	return t.of(ctx, id, func(_ *tenant, sh *shard) error {
		if err := t.settleHome(ctx, sh, id); err != nil {
			return err
		}
		return sh.exec(ctx, fmt.Sprintf("INSERT INTO horizons SELECT %s, toInt64(%d), toInt64(%d)", quote(id), state.Horizon, state.MinutesFrom))
	})
}

// ImportTraces writes traces at given positions.
func (t *Moved) ImportTraces(ctx context.Context, id string, place int64, list []move.Trace, again bool) error {
	return t.of(ctx, id, func(_ *tenant, sh *shard) error {
		if err := t.settleHome(ctx, sh, id); err != nil {
			return err
		}
		there := map[int64]bool{}
		if again {
			var err error
			if there, err = t.completed(ctx, sh, id, place, list); err != nil {
				return err
			}
		}
		rows := &traceRows{}
		for i := range list {
			seq := place + int64(i)
			if there[seq] {
				continue
			}
			if err := rows.add(id, seq, moveWriter, 0, &list[i].Trace, ""); err != nil {
				return err
			}
		}
		if len(rows.id) == 0 {
			return nil
		}
		return sh.insert(ctx, traceTarget, rows.columns())
	})
}

// completed returns the positions of a batch that are stored. The traces of an
// interrupted insert may be in one table and not in the tables derived from it: missing
// rows are written.
func (t *Moved) completed(ctx context.Context, sh *shard, id string, place int64, list []move.Trace) (map[int64]bool, error) {
	if err := awaitInserts(ctx, sh); err != nil {
		return nil, err
	}
	low, high := list[0].CreatedAt.UnixNano(), list[0].CreatedAt.UnixNano()
	for i := range list {
		low, high = min(low, list[i].CreatedAt.UnixNano()), max(high, list[i].CreatedAt.UnixNano())
	}
	mine := fmt.Sprintf("tenant = %s AND writer = %d AND %s", quote(id), moveWriter, between64("seq", place, place+int64(len(list))-1))
	traces := mine + " AND " + between64("created", low, high)
	there, err := placesIn(ctx, sh, "traces", traces)
	if err != nil || len(there) == 0 {
		return there, err
	}
	for _, view := range []struct{ table, columns string }{
		{"ids", "toUInt16(intDiv(day, 30)) AS month, tenant, id, created, seq, writer"},
		{"feed", "committed, tenant, seq, writer, created, id, again, agent, agent_name, error, blocked, env, team, provider, model, " +
			"input, output, cost, duration, bin, tool, rule, client_name, reason, policies, call_tools, call_counts"},
	} {
		made, err := placesIn(ctx, sh, view.table, mine)
		if err != nil {
			return nil, err
		}
		var missing []int64
		for seq := range there {
			if !made[seq] {
				missing = append(missing, seq)
			}
		}
		if len(missing) == 0 {
			continue
		}
		if err := sh.exec(ctx, fmt.Sprintf("INSERT INTO %s SELECT %s FROM traces WHERE %s AND seq IN (%s)", view.table, view.columns, traces, numbers(missing))); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// awaitInserts waits until the engine has finished the statements of killed processes.
func awaitInserts(ctx context.Context, sh *shard) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var n uint64
		err := sh.row(ctx, "SELECT count() FROM system.processes WHERE query LIKE 'INSERT INTO traces (%'", &n)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func placesIn(ctx context.Context, sh *shard, table, where string) (map[int64]bool, error) {
	list := map[int64]bool{}
	var seq int64
	err := sh.rows(ctx, "SELECT seq FROM "+table+" WHERE "+where, []any{&seq}, func() error {
		list[seq] = true
		return nil
	})
	return list, err
}

func numbers(list []int64) string {
	b := make([]byte, 0, 20*len(list))
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Append(b, n)
	}
	return string(b)
}

// ImportStatistics writes a generation of everything up to a position. A generation that
// exists already is complete, because its row is written last.
func (t *Moved) ImportStatistics(ctx context.Context, id string, place int64, rows func(func(move.Kind, move.Row) error) error) error {
	return t.of(ctx, id, func(tn *tenant, sh *shard) error {
		old, err := tn.newestGeneration(ctx, sh)
		if err != nil || old.version != 0 {
			return err
		}
		w := &generationWriter{ctx: ctx, sh: sh, tenant: id, next: generation{seq: place, version: 1 + rand.Int64N(1<<62), days: map[uint16]int64{}}, uses: map[use]counted{}}
		if err := rows(w.add); err != nil {
			return err
		}
		if err := w.flush(); err != nil || len(w.next.days)+len(w.uses) == 0 {
			return err
		}
		if err := tn.keepUses(ctx, sh, &w.next, w.uses); err != nil {
			return err
		}
		if err := t.settleHome(ctx, sh, id); err != nil {
			return err
		}
		for _, table := range []string{"rollups", "uses"} {
			if err := removeOthers(ctx, sh, table, id, w.next.version); err != nil {
				return err
			}
		}
		days, versions := make([]uint16, 0, len(w.next.days)), make([]int64, 0, len(w.next.days))
		for day, version := range w.next.days {
			days, versions = append(days, day), append(versions, version)
		}
		return sh.insert(ctx, generationTarget, []any{[]string{id}, []int64{place}, []int64{w.next.version}, [][]uint16{days}, [][]int64{versions}})
	})
}

// removeOthers removes the rows of interrupted attempts.
func removeOthers(ctx context.Context, sh *shard, table, tenant string, version int64) error {
	where := fmt.Sprintf("tenant = %s AND version != %d", quote(tenant), version)
	var n uint64
	err := sh.row(ctx, "SELECT count() FROM "+table+" WHERE "+where, &n)
	if err == nil && n > 0 {
		err = sh.exec(ctx, "ALTER TABLE "+table+" DELETE WHERE "+where)
	}
	return err
}

// generationWriter collects the rows of a generation.
type generationWriter struct {
	ctx    context.Context
	sh     *shard
	tenant string
	next   generation
	rows   rollupRows
	uses   map[use]counted
}

func (w *generationWriter) add(kind move.Kind, row move.Row) error {
	switch kind {
	case move.Statistics:
		var s move.Statistic
		if err := json.Unmarshal(row.Value, &s); err != nil {
			return err
		}
		t, err := rollup.TableNamed(s.Table)
		if err != nil {
			return err
		}
		day := dayOfTime(t.Level().Start(s.Bucket))
		w.next.days[day] = w.next.version
		if err := w.rows.add(w.tenant, day, w.next.version, rowKey{uint8(t), s.Bucket, string(s.Agent), string(s.Model), string(s.Env)}, string(s.Data)); err != nil {
			return err
		}
	case move.Tools:
		var u move.Tool
		if err := json.Unmarshal(row.Value, &u); err != nil {
			return err
		}
		w.uses[use{string(u.Agent), string(u.Tool)}] = counted{u.First, u.Last, u.Calls}
	case move.PolicyFires:
		n, err := move.IntegerOf(row.Value)
		if err != nil {
			return err
		}
		w.uses[use{"", string(row.Key)}] = counted{calls: n}
	}
	if w.rows.len() >= maxRollupRows {
		return w.flush()
	}
	return nil
}

func (w *generationWriter) flush() error {
	if w.rows.len() == 0 {
		return nil
	}
	rows := w.rows
	w.rows = rollupRows{}
	return w.sh.insert(w.ctx, rollupTarget, rows.columns())
}

// Export returns the next rows of a kind that belongs to traces.
func (t *Moved) Export(ctx context.Context, id string, kind move.Kind, after string, limit int) (page move.Page, err error) {
	out := func(key, v any) error {
		raw, err := json.Marshal(key)
		if err != nil {
			return err
		}
		row, err := move.NewRow(raw, v)
		page.Rows = append(page.Rows, row)
		return err
	}
	err = t.of(ctx, id, func(tn *tenant, sh *shard) (err error) {
		page = move.Page{}
		switch kind {
		case move.Traces:
			page.Traces, err = exportTraces(ctx, sh, id, after, limit)
			return err
		case move.TraceState:
			var s move.State
			if after != "" {
				return nil
			}
			if err := sh.row(ctx, "SELECT max(created), max(minutes) FROM horizons WHERE tenant = "+quote(id), &s.Horizon, &s.MinutesFrom); err != nil {
				return err
			}
			return out(1, s)
		case move.Statistics:
			return tn.exportStatistics(ctx, sh, after, limit, out)
		case move.Tools:
			return tn.exportUses(ctx, sh, "agent != ''", after, limit, out)
		case move.PolicyFires:
			return tn.exportUses(ctx, sh, "agent = ''", after, limit, out)
		}
		return fmt.Errorf("rows of kind %q are not stored on this engine", kind)
	})
	return page, err
}

func (t *tenant) exportUses(ctx context.Context, sh *shard, which, after string, limit int, out func(key, v any) error) error {
	g, err := t.newestGeneration(ctx, sh)
	if err != nil {
		return err
	}
	var from [2][]byte // JSON preserves any bytes
	if after != "" {
		if err := json.Unmarshal([]byte(after), &from); err != nil {
			return err
		}
		which += fmt.Sprintf(" AND (agent > %[1]s OR agent = %[1]s AND tool > %[2]s)", quote(string(from[0])), quote(string(from[1])))
	}
	var u use
	var c counted
	return sh.rows(ctx, fmt.Sprintf("SELECT agent, tool, first, last, calls FROM uses WHERE tenant = %s AND version = %d AND %s ORDER BY agent, tool LIMIT %d",
		quote(t.id), g.version, which, limit), []any{&u.agent, &u.tool, &c.first, &c.last, &c.calls}, func() error {
		key := [2][]byte{[]byte(u.agent), []byte(u.tool)}
		if u.agent == "" {
			return out(key, record.Row{Bucket: move.InPolicyFires, Key: key[1], Value: move.Integer(c.calls)})
		}
		return out(key, move.Tool{Agent: key[0], Tool: key[1], First: c.first, Last: c.last, Calls: c.calls})
	})
}

// statisticsPage is the minimum number of rows of statistics per read, because each page
// sorts all rows after it.
const statisticsPage = 20_000

func (t *tenant) exportStatistics(ctx context.Context, sh *shard, after string, limit int, out func(key, v any) error) error {
	g, err := t.newestGeneration(ctx, sh)
	if err != nil {
		return err
	}
	days, some := g.rows(0, 1<<16-1)
	if !some {
		return nil
	}
	var minutes int64
	if err := sh.row(ctx, "SELECT max(minutes) FROM horizons WHERE tenant = "+quote(t.id), &minutes); err != nil {
		return err
	}
	type key struct {
		Table, Bucket     uint32
		Agent, Model, Env []byte
	}
	behind := ""
	if after != "" {
		var k key
		if err := json.Unmarshal([]byte(after), &k); err != nil {
			return err
		}
		behind = fmt.Sprintf(" AND (tbl > %[1]d OR tbl = %[1]d AND (bucket > %[2]d OR bucket = %[2]d AND (agent > %[3]s OR agent = %[3]s AND (model > %[4]s OR model = %[4]s AND env > %[5]s))))",
			k.Table, k.Bucket, quote(string(k.Agent)), quote(string(k.Model)), quote(string(k.Env)))
	}
	var k rowKey
	var data string
	return sh.rows(ctx, fmt.Sprintf("SELECT tbl, bucket, agent, model, env, data FROM rollups WHERE tenant = %s AND %s AND (tbl != %d OR bucket >= %d)%s ORDER BY tbl, bucket, agent, model, env LIMIT %d",
		quote(t.id), days, rollup.Minute, rollup.ByMinute.Bucket(timeOf(minutes)), behind, max(limit, statisticsPage)),
		[]any{&k.table, &k.bucket, &k.agent, &k.model, &k.env, &data}, func() error {
			s := move.Statistic{Table: rollup.Table(k.table).String(), Bucket: k.bucket, Agent: []byte(k.agent), Model: []byte(k.model), Env: []byte(k.env), Data: []byte(data)}
			return out(key{uint32(k.table), k.bucket, s.Agent, s.Model, s.Env}, s)
		})
}

// exportTraces returns the next traces by their creation; all traces of one time are in
// one page. Each row is one trace, even if two have the same id. A trace that is not in
// the table of ids or not in the feed is an error.
func exportTraces(ctx context.Context, sh *shard, id, after string, limit int) (list []move.Trace, err error) {
	from := int64(-1)
	if after != "" {
		from = int64(binary.BigEndian.Uint64([]byte(after)))
	} else if err := countedAlike(ctx, sh, id); err != nil {
		return nil, err
	}
	where := fmt.Sprintf("tenant = %s AND created > %d AND created >= %s", quote(id), from, horizonOf(id))
	// The day first, so that at most one day of the narrow columns is read.
	var day uint16
	var n uint64
	if err := sh.row(ctx, fmt.Sprintf("SELECT min(day), count() FROM traces WHERE %s AND day >= %d", where, dayOf(from)), &day, &n); err != nil || n == 0 {
		return nil, err
	}
	where += fmt.Sprintf(" AND day = %d", day)
	var upTo int64
	if err := sh.row(ctx, fmt.Sprintf("SELECT max(created) FROM (SELECT created FROM traces WHERE %s ORDER BY created LIMIT %d)", where, limit), &upTo); err != nil {
		return nil, err
	}
	var r traceRow
	err = sh.rows(ctx, fmt.Sprintf("SELECT %s FROM traces WHERE %s AND created <= %d ORDER BY created", wholeColumns, where, upTo), r.whole(), func() error {
		tr, err := r.trace()
		list = append(list, move.Trace{At: string(binary.BigEndian.AppendUint64(nil, uint64(upTo))), Trace: tr})
		return err
	})
	return list, err
}

// countedAlike returns an error unless all derived tables have the same number of traces.
func countedAlike(ctx context.Context, sh *shard, id string) error {
	var counts [3]uint64
	for i, table := range []string{"traces", "ids", "feed"} {
		if err := sh.row(ctx, "SELECT count() FROM "+table+" WHERE tenant = "+quote(id), &counts[i]); err != nil {
			return err
		}
	}
	if slices.Min(counts[:]) != slices.Max(counts[:]) {
		return fmt.Errorf("%w: tenant %s has %d traces, %d ids and %d commits", move.ErrDiffers, id, counts[0], counts[1], counts[2])
	}
	return nil
}
