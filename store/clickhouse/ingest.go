package clickhouse

import (
	"context"
	"time"

	"svc/store"
)

// ingest is a batch that is being stored.
type ingest struct {
	t     *tenant
	list  []store.Trace
	again []int64  // per trace: creation of the removed trace that had its id; 0: none
	fresh []bool   // per trace: whether it is to be stored
	teams []string // per trace: the team of its agent
	res   store.IngestResult
}

// Ingest stores a batch of traces. When a batch is sent again, the traces of the first
// attempt are found by their ids.
func (t *tenant) Ingest(ctx context.Context, batch store.Batch) (res store.IngestResult, err error) {
	if err := store.CheckBatch(&batch); err != nil {
		return res, err
	}
	err = t.on(ctx, func(sh *shard) error {
		in, err := t.prepare(&batch)
		if err != nil || len(in.list) == 0 {
			return err
		}
		ids := make([]string, len(in.list))
		for i := range in.list {
			ids[i] = in.list[i].ID
		}
		release, err := t.s.claims.claim(ctx, t.id, ids)
		if err != nil {
			return err
		}
		defer release()
		if err := in.look(ctx, sh, ids); err != nil {
			return err
		}
		if err := in.resolve(ctx); err != nil {
			return err
		}
		if in.res.Accepted > 0 {
			if err := t.s.settleHome(ctx, sh, t.id); err != nil {
				return err
			}
			if err := sh.store(ctx, in); err != nil {
				return err
			}
		}
		res = in.res
		return nil
	})
	return res, err
}

// prepare checks a batch.
func (t *tenant) prepare(batch *store.Batch) (*ingest, error) {
	now := t.s.opts.Now().UTC()
	in := &ingest{t: t, list: make([]store.Trace, 0, len(batch.Traces))}
	err := batch.Check(now, func() string { return t.s.ids.New(store.PrefixTrace, now) }, func(_ int, tr *store.Trace) { in.list = append(in.list, *tr) })
	if err != nil {
		return nil, err
	}
	return in, nil
}

// look determines which traces are stored already, or are too old.
func (in *ingest) look(ctx context.Context, sh *shard, ids []string) error {
	known := make(map[string]int64)
	var id string
	var created int64
	// The horizon is returned under the empty id, which no trace has.
	tenant := quote(in.t.id)
	err := sh.rows(ctx, "SELECT id, max(created) FROM ids WHERE tenant = "+tenant+" AND id IN ("+quoted(ids)+") GROUP BY id UNION ALL SELECT '' AS id, max(created) FROM horizons WHERE tenant = "+tenant,
		[]any{&id, &created}, func() error {
			known[id] = created
			return nil
		})
	if err != nil {
		return err
	}
	horizon := known[""]
	in.fresh, in.again, in.res = make([]bool, len(in.list)), make([]int64, len(in.list)), store.IngestResult{}
	before := make(map[string]bool, len(in.list))
	for i := range in.list {
		tr := &in.list[i]
		was, stored := known[tr.ID]
		switch {
		case before[tr.ID]:
			in.res.Duplicates++
		case tr.CreatedAt.UnixNano() < horizon:
			in.res.Expired++
		case stored && was >= horizon:
			in.res.Duplicates++
		default:
			in.fresh[i] = true
			in.again[i] = was
			in.res.Accept(tr)
		}
		before[tr.ID] = true
	}
	return nil
}

// resolve resolves the agents of the traces that are to be stored, and rejects a batch
// that names one that does not exist. Traces that are not stored register nothing.
func (in *ingest) resolve(ctx context.Context) error {
	in.teams = make([]string, len(in.list))
	var asked []store.NamedAgent
	var at []int
	for i := range in.list {
		if tr := &in.list[i]; in.fresh[i] || tr.AgentID != "" {
			at = append(at, i)
			asked = append(asked, store.NamedAgent{ID: tr.AgentID, Name: tr.AgentName, NameSent: tr.AgentNameSent,
				ModelProvider: tr.ModelProvider, ModelName: tr.ModelName, Environment: tr.Environment})
		}
	}
	if len(asked) == 0 {
		return nil
	}
	answers, err := in.t.s.opts.Agents(in.t.id).ResolveAgents(ctx, asked)
	if err != nil {
		return err
	}
	var unknown []int
	for k, a := range answers {
		i := at[k]
		if a.Unknown {
			unknown = append(unknown, i)
		}
		in.list[i].AgentID, in.list[i].AgentName, in.teams[i] = a.ID, a.Name, a.TeamID
	}
	return store.UnknownAgents(unknown)
}

// nanos encodes a time for the engine, clamped to the range of int64.
func nanos(t time.Time) int64 {
	const most = 1<<63 - 1
	switch s := t.Unix(); {
	case s < -most/int64(time.Second):
		return -most
	case s >= most/int64(time.Second):
		return most
	}
	return t.UnixNano()
}

// timeOf decodes a time.
func timeOf(n int64) time.Time { return time.Unix(0, n).UTC() }
