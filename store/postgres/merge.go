package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"svc/store/rollup"
)

// Statistics of batches of a tenant are merged when there are mergeFrom of them, or
// when the oldest has waited for mergeAfter. One transaction merges at most
// mergeMost.
const (
	mergeFrom  = 32
	mergeAfter = int64(10e9)
	mergeMost  = 200
)

// mergeDue merges the statistics of the tenants that are due.
func (s *Store) mergeDue(ctx context.Context) error {
	var due []int32
	err := s.run(ctx, reading, func(ctx context.Context, tx pgx.Tx) error {
		due = due[:0]
		var n int32
		return rows(ctx, tx, `SELECT tenant FROM rollup_deltas GROUP BY tenant HAVING count(*) >= $1 OR min(at) < $2`,
			[]any{s.opts.mergeFrom, s.now().UnixNano() - mergeAfter}, []any{&n}, func() error {
				due = append(due, n)
				return nil
			})
	})
	for _, n := range due {
		for more := true; more && err == nil; {
			more, err = s.merge(ctx, n)
		}
	}
	return err
}

// merge merges statistics of batches of a tenant into the rollups, and reports
// whether there may be more. It does nothing while another process merges them.
func (s *Store) merge(ctx context.Context, tenant int32) (more bool, err error) {
	err = s.run(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		d := &data{ctx: ctx, tx: tx, s: s, n: tenant}
		var words int64
		mine, err := d.one([]any{&words}, `SELECT words FROM rollup_state WHERE tenant = $1 FOR UPDATE SKIP LOCKED`, tenant)
		more = false
		if err != nil || !mine {
			return err
		}
		more, err = d.merge(words)
		return err
	})
	return more, err
}

// merge is Store.merge with the tenant's statistics locked.
func (d *data) merge(words int64) (more bool, err error) {
	sum := emptyDelta()
	var done []int64
	var n int64
	var raw []byte
	err = d.each([]any{&n, &raw}, func() error {
		done = append(done, n)
		return sum.addEncoded(raw)
	}, `SELECT n, data FROM rollup_deltas WHERE tenant = $1 ORDER BY n LIMIT $2`, d.n, mergeMost)
	if err != nil || len(done) == 0 {
		return false, err
	}
	numbers, err := d.numberWords(sum, words)
	if err != nil {
		return false, err
	}
	var minutesFrom int64
	if _, err := d.one([]any{&minutesFrom}, `SELECT minutes_from FROM trace_state WHERE tenant = $1`, d.n); err != nil {
		return false, err
	}
	for i := range sum.minutes {
		k := &sum.minutes[i].Key
		k.Agent, k.Model, k.Env = numbers[k.Agent], numbers[k.Model], numbers[k.Env]
	}
	if err := d.mergeRows(rollup.Expand(sum.minutes), rollup.ByMinute.Bucket(timeOf(minutesFrom))); err != nil {
		return false, err
	}
	d.mergeTools(sum)
	d.mergeFires(sum)
	d.exec(`DELETE FROM rollup_deltas WHERE tenant = $1 AND n = ANY($2)`, d.n, done)
	return len(done) == mergeMost, d.flush()
}

// numberWords finds the numbers of the values of dimensions or assigns them.
func (d *data) numberWords(sum *delta, words int64) ([]uint32, error) {
	used := make([]bool, len(sum.words.list))
	for i := range sum.minutes {
		k := &sum.minutes[i].Key
		used[k.Agent], used[k.Model], used[k.Env] = true, true, true
	}
	var wanted [][]byte
	for i, word := range sum.words.list {
		if used[i] && word != "" {
			wanted = append(wanted, []byte(word))
		}
	}
	numbers := map[string]int64{}
	var n int64
	var word []byte
	err := d.each([]any{&word, &n}, func() error {
		numbers[string(word)] = n
		return nil
	}, `SELECT word, n FROM rollup_words WHERE tenant = $1 AND word = ANY($2)`, d.n, wanted)
	if err != nil {
		return nil, err
	}
	out := make([]uint32, len(sum.words.list))
	made := words
	for i, word := range sum.words.list {
		if !used[i] || word == "" {
			continue
		}
		n, known := numbers[word]
		if !known {
			made++
			n = made
			numbers[word] = n
			d.exec(`INSERT INTO rollup_words (tenant, word, n) VALUES ($1, $2, $3)`, d.n, []byte(word), n)
		}
		out[i] = uint32(n)
	}
	if made != words {
		d.exec(`UPDATE rollup_state SET words = $2 WHERE tenant = $1`, d.n, made)
	}
	return out, nil
}

// mergeRows merges entries into the rows of their keys. Minutes that retention has
// removed are left out.
func (d *data) mergeRows(entries []rollup.Entry, minutesFrom uint32) error {
	c := rowColumns{}
	var kept []*rollup.Entry
	for i := range entries {
		e := &entries[i]
		if e.Key.Table == rollup.Minute && e.Key.Bucket < minutesFrom {
			continue
		}
		kept = append(kept, e)
		c.add(e.Key)
	}
	stored := map[rollup.Key][]byte{}
	var table int16
	var bucket, agent, model, env int64
	var raw []byte
	err := d.each([]any{&table, &bucket, &agent, &model, &env, &raw}, func() error {
		stored[rollup.Key{Table: rollup.Table(table), Bucket: uint32(bucket), Agent: uint32(agent), Model: uint32(model), Env: uint32(env)}] = append([]byte{}, raw...)
		return nil
	}, `SELECT r.tbl, r.bucket, r.agent, r.model, r.env, r.data FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS k (tbl, bucket, agent, model, env)
		JOIN rollups r ON r.tenant = $1 AND r.tbl = k.tbl AND r.bucket = k.bucket AND r.agent = k.agent AND r.model = k.model AND r.env = k.env`,
		d.n, c.tables, c.buckets, c.agents, c.models, c.envs)
	if err != nil {
		return err
	}
	var rows [][]byte
	var traces, errs, costs []int64
	for _, e := range kept {
		row, err := rollup.AppendMerged(nil, stored[e.Key], &e.Partial)
		if err != nil {
			return err
		}
		var total rollup.Sum
		if err := total.Add(row, false); err != nil {
			return err
		}
		rows, traces, errs, costs = append(rows, row), append(traces, total.Traces), append(errs, total.Errors), append(costs, total.Cost)
	}
	d.exec(`INSERT INTO rollups (tenant, tbl, bucket, agent, model, env, traces, errors, cost, data)
		SELECT $1, k.* FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[]) AS k
		ON CONFLICT (tenant, tbl, bucket, agent, model, env) DO UPDATE SET traces = excluded.traces, errors = excluded.errors, cost = excluded.cost, data = excluded.data`,
		d.n, c.tables, c.buckets, c.agents, c.models, c.envs, traces, errs, costs, rows)
	return nil
}

// rowColumns returns keys of rows as one slice per column.
type rowColumns struct {
	tables                        []int16
	buckets, agents, models, envs []int64
}

func (c *rowColumns) add(k rollup.Key) {
	c.tables, c.buckets = append(c.tables, int16(k.Table)), append(c.buckets, int64(k.Bucket))
	c.agents, c.models, c.envs = append(c.agents, int64(k.Agent)), append(c.models, int64(k.Model)), append(c.envs, int64(k.Env))
}

// mergeTools adds the uses of tools of agents that still exist, of each agent at most
// maxTools.
func (d *data) mergeTools(sum *delta) {
	for k, u := range sum.tools {
		d.exec(`INSERT INTO tools (tenant, agent, tool, first, last, calls) SELECT $1, $2, $3, $4, $5, $6
			WHERE EXISTS (SELECT 1 FROM records WHERE tenant = $1 AND bucket = 'agents' AND key = $2)
			AND (EXISTS (SELECT 1 FROM tools WHERE tenant = $1 AND agent = $2 AND tool = $3) OR (SELECT count(*) FROM tools WHERE tenant = $1 AND agent = $2) < $7)
			ON CONFLICT (tenant, agent, tool) DO UPDATE SET first = least(tools.first, excluded.first), last = greatest(tools.last, excluded.last), calls = tools.calls + excluded.calls`,
			d.n, []byte(k.agent), []byte(k.tool), u.first, u.last, u.calls, maxTools)
	}
}

// mergeFires adds the fires of policies that exist, because traces may name any
// policy.
func (d *data) mergeFires(sum *delta) {
	for id, n := range sum.fires {
		d.exec(`INSERT INTO policy_fires (tenant, policy, n) SELECT $1, $2, $3 WHERE EXISTS (SELECT 1 FROM records WHERE tenant = $1 AND bucket = 'policies' AND key = $2)
			ON CONFLICT (tenant, policy) DO UPDATE SET n = policy_fires.n + excluded.n`, d.n, []byte(id), n)
	}
}
