package postgres

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"svc/store"
)

// fresh inserts the ids of the batch, and numbers the new traces in the order in which
// batches arrive at the engine.
func (in *ingest) fresh(d *data) (res store.IngestResult, err error) {
	res = store.IngestResult{Duplicates: in.repeat}
	order := make([]int, 0, len(in.items))
	for i := range in.items {
		in.items[i].seq = 0
		if in.items[i].trace.CreatedAt.UnixNano() < in.horizon {
			res.Expired++
			continue
		}
		order = append(order, i)
	}
	// Sorted, so that concurrent batches with the same ids cannot deadlock.
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(in.items[a].trace.ID, in.items[b].trace.ID) })
	ids, created, places := make([][]byte, len(order)), make([]int64, len(order)), make([]int64, len(order))
	for k, i := range order {
		ids[k], created[k], places[k] = []byte(in.items[i].trace.ID), in.items[i].trace.CreatedAt.UnixNano(), int64(i)
	}
	taken := `DO NOTHING`
	if in.purged < in.horizon {
		// Rows of ids whose traces retention has hidden are replaced.
		taken = `(tenant, id) DO UPDATE SET created = excluded.created, seq = excluded.seq WHERE trace_ids.created < $5`
	}
	var seq int64
	err = d.each([]any{&seq}, func() error {
		it := &in.items[seq&(maxPlaces-1)]
		it.seq = seq
		res.Accept(&it.trace)
		return nil
	}, `WITH o AS (SELECT nextval('trace_order') AS n)
		INSERT INTO trace_ids (tenant, id, created, seq) SELECT $1, u.id, u.created, o.n * 1024 + u.place
		FROM o, unnest($2::bytea[], $3::bigint[], $4::bigint[]) AS u (id, created, place) WHERE $5::bigint IS NOT NULL
		ON CONFLICT `+taken+` RETURNING seq`, d.n, ids, created, places, in.horizon)
	res.Duplicates += len(order) - res.Accepted
	if err == nil && res.Accepted == 0 {
		err = errNothing
	}
	return res, err
}

// maxPlaces exceeds the traces of a batch: the number of a trace combines the number of its
// batch and its index in the batch.
const maxPlaces = 1024

// anyGen disables the check of the version of agents, for transactions that have locked the
// tenant.
const anyGen = -1

// keep stores the new traces and ends the transaction: its last statement locks the row that
// orders batches.
func (in *ingest) keep(d *data, v *agentView) error {
	stored, teams := make([]*store.Trace, 0, len(in.items)), make([]string, 0, len(in.items))
	rows := make([]byte, 0, 512*len(in.items))
	rows = append(rows, copyHeader...)
	var places, created []byte
	newest := int64(0)
	for i := range in.items {
		it := &in.items[i]
		if it.seq == 0 {
			continue
		}
		tr := &it.trace
		a, _ := v.resolve(&in.named[i])
		tr.AgentID, tr.AgentName = a.ID, a.Name
		var err error
		if rows, err = appendRow(rows, in.n, it.seq, tr); err != nil {
			return err
		}
		at := tr.CreatedAt.UnixNano()
		created = binary.BigEndian.AppendUint64(created, uint64(at))
		places = binary.BigEndian.AppendUint64(places, uint64(it.seq))
		newest = max(newest, at)
		stored, teams = append(stored, tr), append(teams, a.TeamID)
	}
	if err := d.flush(); err != nil {
		return err
	}
	rows = append(rows, copyTrailer...)
	if _, err := d.tx.Conn().PgConn().CopyFrom(d.ctx, bytes.NewReader(rows), copied); err != nil {
		return err
	}
	delta, err := newDelta(stored, teams, in.now)
	if err != nil {
		return err
	}
	var gen, horizon int64
	_, err = d.one([]any{&gen, &horizon, &in.seq}, `WITH s AS (UPDATE trace_state SET seq = seq + $2 WHERE tenant = $1 RETURNING seq, agents_gen, horizon),
		b AS (INSERT INTO trace_batches (tenant, n, traces, newest, created, seqs) SELECT $1, s.seq, $2, $3, $4, $5 FROM s),
		r AS (INSERT INTO rollup_deltas (tenant, n, at, oldest, newest, tables, buckets, agents, models, envs, traces, errors, costs, data, tool_agents, tools, firsts, lasts, calls, policies, fires)
			SELECT $1, s.seq, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24 FROM s)
		SELECT agents_gen, horizon, seq FROM s`, append([]any{in.n, len(stored), newest, created, places, in.now.UnixNano()}, delta.columns()...)...)
	if err == nil && (horizon != in.horizon || v.gen != anyGen && v.gen != gen) {
		err = errStale
	}
	return err
}
