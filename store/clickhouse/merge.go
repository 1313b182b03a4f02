package clickhouse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"svc/store/rollup"
)

// Statistics of a tenant are merged each MergeEvery while mergeFrom traces or more are not
// merged, fewer of them after mergeAfter. One merge covers at most mergeMost.
const (
	mergeFrom  = 20_000
	mergeAfter = 5 * time.Minute
	mergeMost  = 500_000
)

// unmerged are the traces of a tenant whose statistics are not merged yet.
type unmerged struct {
	n      int       // how many there are, at least
	looked time.Time // the last merge, or when the tenant was added
}

// mergeNowAndThen periodically merges the statistics of traces that this process wrote, and
// once those of all tenants: a process that has ended may have left some.
func (s *Store) mergeNowAndThen() {
	tick := time.NewTicker(s.opts.MergeEvery)
	defer tick.Stop()
	listed := false
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
		}
		if !listed {
			err := s.addAllUnmerged(s.ended)
			if listed = err == nil; err != nil {
				s.log.Warn("the tenants whose statistics may have to be merged could not be listed", "error", err)
			}
		}
		s.mergeDue(time.Now())
	}
}

// addAllUnmerged makes every tenant due once, up to maxHomes of each shard.
func (s *Store) addAllUnmerged(ctx context.Context) error {
	for _, sh := range s.shards {
		var id string
		err := sh.rows(ctx, fmt.Sprintf("SELECT DISTINCT tenant FROM homes LIMIT %d", maxHomes), []any{&id}, func() error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.fresh[id] == nil {
				s.fresh[id] = &unmerged{}
			}
			s.fresh[id].n = max(s.fresh[id].n, mergeFrom)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mergeDue merges the statistics of the tenants that are due.
func (s *Store) mergeDue(now time.Time) {
	for _, tenant := range s.due(now) {
		if err := s.mergeTenant(s.ended, tenant); err != nil {
			s.log.Warn("statistics could not be merged", "error", err)
		}
	}
}

// due returns the tenants whose statistics are to be merged.
func (s *Store) due(now time.Time) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant, u := range s.fresh {
		if u.n >= mergeFrom || now.Sub(u.looked) >= mergeAfter {
			list = append(list, tenant)
			u.looked = now
		}
	}
	return list
}

// mergeTenant merges all settled commits of a tenant. The tenant stays on the list while
// commits are left, usually those of the newest minute, and after an error.
func (s *Store) mergeTenant(ctx context.Context, id string) error {
	t := &tenant{s, id}
	sh, err := s.home(ctx, id)
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		more, err = t.merge(ctx, sh, sh.clock()-int64(s.opts.settle))
	}
	if err != nil {
		return err
	}
	if err := t.countUnmerged(ctx, sh); err != nil {
		return err
	}
	return t.clean(ctx, sh)
}

// countUnmerged sets the number of traces that are not merged, by any process.
func (t *tenant) countUnmerged(ctx context.Context, sh *shard) error {
	s := t.s
	s.mu.Lock()
	before := s.fresh[t.id].n
	s.mu.Unlock()
	g, err := t.newestGeneration(ctx, sh)
	if err != nil {
		return err
	}
	var left uint64
	if err := sh.row(ctx, fmt.Sprintf("SELECT count() FROM feed WHERE tenant = %s AND %s", quote(t.id), committedBehind(g.seq)), &left); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Commits since the first line of this function count again: the query may have missed them.
	u := s.fresh[t.id]
	if u.n += int(left) - before; u.n == 0 {
		delete(s.fresh, t.id)
	}
	return nil
}

// merge makes a generation from the newest one and the commits after it, up to a
// position. It reports whether there is more up to the position. Two processes that
// merge concurrently make two complete generations; readers use one.
func (t *tenant) merge(ctx context.Context, sh *shard, settled int64) (more bool, err error) {
	g, err := t.newestGeneration(ctx, sh)
	if err != nil {
		return false, err
	}
	var n uint64
	var last int64
	err = sh.row(ctx, fmt.Sprintf("SELECT count(), max(seq) FROM (SELECT seq FROM feed WHERE tenant = %s AND %s AND seq <= %d ORDER BY seq LIMIT %d)",
		quote(t.id), committedBehind(g.seq), settled, mergeMost), &n, &last)
	if err != nil || n == 0 {
		return false, err
	}
	next := generation{seq: last, version: rand.Int64(), days: g.days}
	rows, err := t.minutesOf(ctx, sh, &g, last)
	if err != nil {
		return false, err
	}
	if err := t.mergeDays(ctx, sh, &g, &next, rows); err != nil {
		return false, err
	}
	uses, err := t.uses(ctx, sh, &g, last, 2*int64(settle), true, true, "", "")
	if err != nil {
		return false, err
	}
	if err := t.keepUses(ctx, sh, &next, uses); err != nil {
		return false, err
	}
	days, versions := make([]uint16, 0, len(next.days)), make([]int64, 0, len(next.days))
	for day, version := range next.days {
		days, versions = append(days, day), append(versions, version)
	}
	// The row of the generation is written last: it makes the rows written before
	// valid.
	err = sh.insert(ctx, generationTarget, []any{[]string{t.id}, []int64{next.seq}, []int64{next.version}, [][]uint16{days}, [][]int64{versions}})
	return n == mergeMost, err
}

// numbered holds minutes whose dimensions are numbers of words.
type numbered struct {
	words   *rollup.Words
	entries []rollup.Entry
}

// minutesOf returns the statistics of the commits after a generation, up to a
// position.
func (t *tenant) minutesOf(ctx context.Context, sh *shard, g *generation, upTo int64) (*numbered, error) {
	r := &numbered{words: rollup.NewWords()}
	var minute uint32
	var agent, model, env string
	var row sums
	err := sh.rows(ctx, fmt.Sprintf("SELECT %s AS minute, %s AS a, %s AS m, %s AS e, %s FROM %s GROUP BY minute, a, m, e, bin",
		minuteSQL, agentSQL, modelSQL, envSQL, sumsSQL, t.since(g.seq, 2*int64(settle), upTo, "")), append([]any{&minute, &agent, &model, &env}, row.list()...), func() error {
		r.entries = append(r.entries, rollup.Entry{Partial: row.partial(),
			Key: rollup.Key{Table: rollup.Minute, Bucket: minute, Agent: r.words.Number(agent), Model: r.words.Number(model), Env: r.words.Number(env)}})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, t.namesOf(ctx, sh, g, upTo, r)
}

// mergeDays writes the rows of the days that have new statistics, in the version of a
// generation.
func (t *tenant) mergeDays(ctx context.Context, sh *shard, g, next *generation, r *numbered) error {
	byDay := map[uint16][]rollup.Entry{}
	for _, e := range r.entries {
		day := dayOfTime(e.Key.Table.Level().Start(e.Key.Bucket))
		byDay[day] = append(byDay[day], e)
	}
	var minutesFrom int64
	if err := sh.row(ctx, "SELECT max(minutes) FROM horizons WHERE tenant = "+quote(t.id), &minutesFrom); err != nil {
		return err
	}
	first := rollup.ByMinute.Bucket(timeOf(minutesFrom))
	rows := &rollupRows{}
	for day, entries := range byDay {
		if err := t.mergeDay(ctx, sh, g, next, r, day, rollup.Expand(entries), first, rows); err != nil {
			return err
		}
		if rows.len() > maxRollupRows {
			if err := sh.insert(ctx, rollupTarget, rows.columns()); err != nil {
				return err
			}
			rows = &rollupRows{}
		}
	}
	for day := range byDay {
		next.days[day] = next.version
	}
	if rows.len() == 0 {
		return nil
	}
	return sh.insert(ctx, rollupTarget, rows.columns())
}

// maxRollupRows bounds the rows of one statement, except for the rows of a single day.
const maxRollupRows = 50_000

// rowKey is the key of a row of merged statistics.
type rowKey struct {
	table             uint8
	bucket            uint32
	agent, model, env string
}

// mergeDay appends the rows of a day: those of a generation merged with the new ones.
func (t *tenant) mergeDay(ctx context.Context, sh *shard, g, next *generation, r *numbered, day uint16, entries []rollup.Entry, first uint32, rows *rollupRows) error {
	stored := map[rowKey]string{}
	if version, some := g.days[day]; some {
		var k rowKey
		var data string
		err := sh.rows(ctx, fmt.Sprintf("SELECT tbl, bucket, agent, model, env, data FROM rollups WHERE tenant = %s AND day = %d AND version = %d AND (tbl != %d OR bucket >= %d)",
			quote(t.id), day, version, rollup.Minute, first), []any{&k.table, &k.bucket, &k.agent, &k.model, &k.env, &data}, func() error {
			stored[k] = data
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i := range entries {
		e := &entries[i]
		if e.Key.Table == rollup.Minute && e.Key.Bucket < first {
			continue
		}
		k := rowKey{uint8(e.Key.Table), e.Key.Bucket, r.words.Word(e.Key.Agent), r.words.Word(e.Key.Model), r.words.Word(e.Key.Env)}
		data, err := rollup.AppendMerged(nil, []byte(stored[k]), &e.Partial)
		if err != nil {
			return err
		}
		stored[k] = string(data)
	}
	for k, data := range stored {
		if err := rows.add(t.id, day, next.version, k, data); err != nil {
			return err
		}
	}
	return nil
}

var rollupTarget = newTarget("rollups", "tenant", "String", "tbl", "UInt8", "bucket", "UInt32", "agent", "String", "model", "String", "env", "String",
	"day", "UInt16", "version", "Int64", "traces", "Int64", "errors", "Int64", "cost", "Int64", "data", "String")

// rollupRows holds rows of merged statistics by column.
type rollupRows struct {
	tenant, agent, model, env, data []string
	table                           []uint8
	bucket                          []uint32
	day                             []uint16
	version, traces, errors, cost   []int64
}

func (r *rollupRows) len() int { return len(r.tenant) }

func (r *rollupRows) columns() []any {
	return []any{r.tenant, r.table, r.bucket, r.agent, r.model, r.env, r.day, r.version, r.traces, r.errors, r.cost, r.data}
}

func (r *rollupRows) add(tenant string, day uint16, version int64, k rowKey, data string) error {
	var sum rollup.Sum
	if err := sum.Add([]byte(data), false); err != nil {
		return err
	}
	r.tenant, r.table, r.bucket = append(r.tenant, tenant), append(r.table, k.table), append(r.bucket, k.bucket)
	r.agent, r.model, r.env = append(r.agent, k.agent), append(r.model, k.model), append(r.env, k.env)
	r.day, r.version, r.data = append(r.day, day), append(r.version, version), append(r.data, data)
	r.traces, r.errors, r.cost = append(r.traces, sum.Traces), append(r.errors, sum.Errors), append(r.cost, sum.Cost)
	return nil
}

var (
	generationTarget = newTarget("generations", "tenant", "String", "seq", "Int64", "version", "Int64", "days", "Array(UInt16)", "versions", "Array(Int64)")
	usesTarget       = newTarget("uses", "tenant", "String", "version", "Int64", "agent", "String", "tool", "String", "first", "Int64", "last", "Int64", "calls", "Int64")
)

// keepUses writes the uses of tools and policies of a generation.
func (t *tenant) keepUses(ctx context.Context, sh *shard, next *generation, uses map[use]counted) error {
	agents := map[string]bool{}
	for u := range uses {
		agents[u.agent] = true
	}
	var tenants, of, tools []string
	var versions, firsts, lasts, calls []int64
	for agent := range agents {
		names := firstTools(uses, agent)
		if agent == "" { // policies: all of them
			names = names[:0]
			for u := range uses {
				if u.agent == "" {
					names = append(names, u.tool)
				}
			}
		}
		for _, name := range names {
			c := uses[use{agent, name}]
			tenants, versions, of, tools = append(tenants, t.id), append(versions, next.version), append(of, agent), append(tools, name)
			firsts, lasts, calls = append(firsts, c.first), append(lasts, c.last), append(calls, c.calls)
		}
	}
	if len(tenants) == 0 {
		return nil
	}
	return sh.insert(ctx, usesTarget, []any{tenants, versions, of, tools, firsts, lasts, calls})
}

// Generations that no reader uses any more are removed when there are cleanFrom of
// them.
const (
	cleanFrom  = 32
	cleanAfter = 10 * time.Minute // longer than any read takes
)

// clean removes generations that were replaced long ago, and rows that only they use.
func (t *tenant) clean(ctx context.Context, sh *shard) error {
	before := sh.clock() - int64(cleanAfter)
	type past struct {
		seq      int64
		own      int64
		versions []int64
	}
	var list []past
	var p past
	err := sh.rows(ctx, "SELECT seq, version, versions FROM generations WHERE tenant = "+quote(t.id)+" ORDER BY seq DESC, version DESC", []any{&p.seq, &p.own, &p.versions}, func() error {
		p.versions = slices.Clone(p.versions)
		list = append(list, p)
		return nil
	})
	if err != nil || len(list) < cleanFrom {
		return err
	}
	used, old := map[int64]bool{}, map[int64]bool{}
	var gone int64
	for i, one := range list {
		// The newest generation before the bound may have been replaced just now.
		if i == 0 || one.seq >= before || i > 0 && list[i-1].seq >= before {
			used[one.own] = true
			for _, v := range one.versions {
				used[v] = true
			}
			continue
		}
		gone = max(gone, one.seq)
		for _, v := range append(one.versions, one.own) {
			old[v] = true
		}
	}
	var versions []string
	for v := range old {
		if !used[v] {
			versions = append(versions, fmt.Sprint(v))
		}
	}
	if len(versions) == 0 {
		return nil
	}
	in := strings.Join(versions, ",")
	for _, sql := range []string{
		fmt.Sprintf("ALTER TABLE generations DELETE WHERE tenant = %s AND seq <= %d AND version IN (%s)", quote(t.id), gone, in),
		fmt.Sprintf("ALTER TABLE uses DELETE WHERE tenant = %s AND version IN (%s)", quote(t.id), in),
		fmt.Sprintf("ALTER TABLE rollups DELETE WHERE tenant = %s AND version IN (%s)", quote(t.id), in),
	} {
		if err := sh.exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
