package postgres

import (
	"context"
	"slices"

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
	due, err := listOf[int32](ctx, s, `SELECT tenant FROM rollup_deltas GROUP BY tenant HAVING count(*) >= $1 OR min(at) < $2`, s.opts.mergeFrom, s.now().UnixNano()-mergeAfter)
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
		more = false
		mine, err := d.exists(`SELECT 1 FROM rollup_state WHERE tenant = $1 FOR UPDATE SKIP LOCKED`, tenant)
		if err != nil || !mine {
			return err
		}
		more, err = d.merge()
		return err
	})
	return more, err
}

// merge is Store.merge with the tenant's statistics locked. Batches that are committed
// meanwhile have higher numbers.
func (d *data) merge() (more bool, err error) {
	var batches, last, minutesFrom int64
	_, err = d.one([]any{&batches, &last, &minutesFrom}, `SELECT count(*), coalesce(max(n), 0), (SELECT minutes_from FROM trace_state WHERE tenant = $1)
		FROM (SELECT n FROM rollup_deltas WHERE tenant = $1 ORDER BY n LIMIT $2) d`, d.n, mergeMost)
	if err != nil || batches == 0 {
		return false, err
	}
	words := rollup.NewWords()
	var rows []rollup.Entry
	var table int16
	var bucket int64
	var agent, model, env, raw []byte
	err = d.each([]any{&table, &bucket, &agent, &model, &env, &raw}, func() error {
		p, err := rollup.Decode(raw)
		rows = append(rows, rollup.Entry{Partial: p,
			Key: rollup.Key{Table: rollup.Table(table), Bucket: uint32(bucket), Agent: words.Number(string(agent)), Model: words.Number(string(model)), Env: words.Number(string(env))}})
		return err
	}, `SELECT tbl, bucket, agent, model, env, data FROM waiting_rollups WHERE tenant = $1 AND n <= $2 ORDER BY n, place`, d.n, last)
	if err != nil {
		return false, err
	}
	if err := d.boundNames(rows, words); err != nil {
		return false, err
	}
	if err := d.mergeRows(rollup.Expand(rows), words, rollup.ByMinute.Bucket(timeOf(minutesFrom))); err != nil {
		return false, err
	}
	d.exec(mergeTools, d.n, last, maxTools)
	d.exec(mergeFires, d.n, last)
	d.exec(`DELETE FROM rollup_deltas WHERE tenant = $1 AND n <= $2`, d.n, last)
	return batches == mergeMost, d.flush()
}

// mergeRows merges entries into the rows of their keys. Minutes that retention has
// removed are left out.
func (d *data) mergeRows(entries []rollup.Entry, words *rollup.Words, minutesFrom uint32) error {
	rows := rollupRows{}
	entries = slices.DeleteFunc(entries, func(e rollup.Entry) bool { return e.Key.Table == rollup.Minute && e.Key.Bucket < minutesFrom })
	for i := range entries {
		rows.addKey(entries[i].Key, words)
	}
	stored := make([][]byte, len(entries))
	var place int64
	var raw []byte
	err := d.each([]any{&place, &raw}, func() error {
		stored[place-1] = slices.Clone(raw)
		return nil
	}, `SELECT k.place, r.data FROM unnest($2::smallint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bytea[]) WITH ORDINALITY AS k (tbl, bucket, agent, model, env, place)
		JOIN rollups r ON r.tenant = $1 AND r.tbl = k.tbl AND r.bucket = k.bucket AND r.agent = k.agent AND r.model = k.model AND r.env = k.env`,
		d.n, rows.tables, rows.buckets, rows.agents, rows.models, rows.envs)
	if err != nil {
		return err
	}
	for i := range entries {
		row, err := rollup.AppendMerged(nil, stored[i], &entries[i].Partial)
		if err != nil {
			return err
		}
		if err := rows.addData(row); err != nil {
			return err
		}
	}
	d.exec(`INSERT INTO rollups (tenant, tbl, bucket, agent, model, env, traces, errors, cost, data)
		SELECT $1, k.* FROM unnest($2::smallint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bytea[]) AS k
		ON CONFLICT (tenant, tbl, bucket, agent, model, env) DO UPDATE SET traces = excluded.traces, errors = excluded.errors, cost = excluded.cost, data = excluded.data`,
		d.n, rows.tables, rows.buckets, rows.agents, rows.models, rows.envs, rows.traces, rows.errors, rows.costs, rows.data)
	return nil
}

// mergeTools adds the uses of tools of agents that still exist, of each agent at most
// maxTools tools.
const mergeTools = `WITH u AS (SELECT agent, tool, min(first) AS first, max(last) AS last, least(sum(calls), 9223372036854775807)::bigint AS calls
		FROM waiting_tools WHERE tenant = $1 AND n <= $2 GROUP BY agent, tool),
	p AS (SELECT u.*, t.tool IS NULL AS new, row_number() OVER (PARTITION BY u.agent, t.tool IS NULL ORDER BY u.first, u.tool) AS place
		FROM u LEFT JOIN tools t ON t.tenant = $1 AND t.agent = u.agent AND t.tool = u.tool)
	INSERT INTO tools (tenant, agent, tool, first, last, calls) SELECT $1, agent, tool, first, last, calls FROM p
	WHERE EXISTS (SELECT 1 FROM records WHERE tenant = $1 AND bucket = 'agents' AND key = p.agent)
	AND (NOT new OR place + (SELECT count(*) FROM tools t WHERE t.tenant = $1 AND t.agent = p.agent) <= $3)
	ON CONFLICT (tenant, agent, tool) DO UPDATE SET first = least(tools.first, excluded.first), last = greatest(tools.last, excluded.last), calls = tools.calls + excluded.calls`

// mergeFires adds the fires of policies that exist, because traces may name any
// policy.
const mergeFires = `INSERT INTO policy_fires (tenant, policy, n) SELECT $1, policy, sum(n)::bigint FROM waiting_fires f WHERE tenant = $1 AND batch <= $2
	AND EXISTS (SELECT 1 FROM records WHERE tenant = $1 AND bucket = 'policies' AND key = f.policy) GROUP BY policy
	ON CONFLICT (tenant, policy) DO UPDATE SET n = policy_fires.n + excluded.n`
