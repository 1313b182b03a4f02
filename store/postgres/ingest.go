package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
)

// ingest is a batch that is being stored.
type ingest struct {
	t      *tenant
	now    time.Time
	named  []store.NamedAgent // key of each item
	items  []item
	repeat int // traces left out because their id occurs earlier in the batch

	n       int32
	view    *agentView
	horizon int64
	purged  int64
	seq     int64 // commit number of the tenant after the batch
}

// item is one trace of a batch.
type item struct {
	trace store.Trace
	index int   // index in the caller's batch
	seq   int64 // 0: not to be stored
}

// Reasons to retry a batch: cached data of the tenant is stale, or agents must be
// registered.
var (
	errStale    = errors.New("the tenant has changed meanwhile")
	errRegister = errors.New("there are agents to be registered")
	errNothing  = errors.New("there is nothing to store")
)

// ingestTries bounds the tries of a batch.
const ingestTries = 20

// Ingest stores a batch of traces. Every trace is looked up by its id in the
// transaction that stores the batch, so no state per batch is stored.
func (t *tenant) Ingest(ctx context.Context, batch store.Batch) (res store.IngestResult, err error) {
	if err := store.CheckBatch(&batch); err != nil {
		return res, err
	}
	in, err := t.prepare(ctx, &batch)
	if err != nil || len(in.items) == 0 {
		return res, err
	}
	days := map[int64]bool{}
	for i := range in.items {
		days[dayOf(in.items[i].trace.CreatedAt.UnixNano())] = true
	}
	if err := t.s.makeDays(ctx, days); err != nil {
		return res, err
	}
	register := false
	for try := 1; ; try++ {
		if err := in.look(ctx); err != nil {
			return res, err
		}
		if register {
			res, err = in.storeRegistering(ctx)
		} else {
			res, err = in.store(ctx)
		}
		switch {
		case errors.Is(err, errNothing):
			return res, nil
		case errors.Is(err, errRegister):
			register = true
		case !errors.Is(err, errStale) || try == ingestTries:
			return res, err
		}
	}
}

// prepare checks a batch.
func (t *tenant) prepare(ctx context.Context, batch *store.Batch) (*ingest, error) {
	if err := t.known(ctx); err != nil {
		return nil, err
	}
	in := &ingest{t: t, now: t.s.now(), items: make([]item, 0, len(batch.Traces))}
	seen := make(map[string]struct{}, len(batch.Traces))
	err := batch.Check(in.now, func() string { return t.s.ids.New(store.PrefixTrace, in.now) }, func(i int, tr *store.Trace) {
		if _, ok := seen[tr.ID]; ok {
			in.repeat++
			return
		}
		seen[tr.ID] = struct{}{}
		in.items = append(in.items, item{trace: *tr, index: i})
		in.named = append(in.named, store.NamedAgent{ID: tr.AgentID, Name: tr.AgentName, NameSent: tr.AgentNameSent,
			ModelProvider: tr.ModelProvider, ModelName: tr.ModelName, Environment: tr.Environment})
	})
	if err != nil {
		return nil, err
	}
	return in, nil
}

// known rejects a tenant that does not exist.
func (t *tenant) known(ctx context.Context) error {
	if err := t.s.usable(ctx); err != nil {
		return err
	}
	t.s.mu.Lock()
	_, known := t.s.numbers[t.id]
	t.s.mu.Unlock()
	if known {
		return nil
	}
	return t.read(ctx, func(*data) error { return nil })
}

// look reads the data about the tenant that storing its batch needs. The commit of the
// batch checks that the data is still current.
func (in *ingest) look(ctx context.Context) (err error) {
	t := in.t
	for i := range in.items {
		in.items[i].seq = 0
	}
	if in.remembered() {
		return in.unknown()
	}
	var v *agentView
	err = t.read(ctx, func(d *data) error {
		in.n = d.n
		var gen int64
		_, err := d.one([]any{&gen, &in.horizon, &in.purged}, `SELECT agents_gen, horizon, purged FROM trace_state WHERE tenant = $1`, d.n)
		if err != nil {
			return err
		}
		v = t.s.knownView(d.n, gen)
		v.horizon, v.purged = in.horizon, in.purged
		ids, names := v.missing(in.named)
		return v.look(d, ids, names)
	})
	if err != nil {
		return err
	}
	t.s.rememberView(in.n, v)
	in.view = v
	return in.unknown()
}

// remembered reports whether the cache from earlier batches has everything.
func (in *ingest) remembered() bool {
	s := in.t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	n, known := s.numbers[in.t.id]
	v := s.views[n]
	if !known || v == nil {
		return false
	}
	if ids, names := v.missing(in.named); len(ids)+len(names) > 0 {
		return false
	}
	in.n, in.view, in.horizon, in.purged = n, v, v.horizon, v.purged
	return true
}

// unknown rejects a batch with ids of agents that do not exist.
func (in *ingest) unknown() error {
	var unknown []int
	for i := range in.named {
		if _, ok := in.view.ids[in.named[i].ID]; in.named[i].ID != "" && !ok {
			unknown = append(unknown, in.items[i].index)
		}
	}
	return store.UnknownAgents(unknown)
}

// store stores the batch if every agent in it is known.
func (in *ingest) store(ctx context.Context) (res store.IngestResult, err error) {
	err = in.t.s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		d := &data{ctx: ctx, tx: tx, s: in.t.s, n: in.n}
		if res, err = in.fresh(d); err != nil {
			return err
		}
		for i := range in.items {
			if _, ok := in.view.resolve(&in.named[i]); in.items[i].seq != 0 && !ok {
				return errRegister
			}
		}
		return in.keep(d, in.view)
	})
	return in.ended(res, err)
}

// storeRegistering stores the batch with the tenant locked, and registers unknown
// agents that traces to be stored name.
func (in *ingest) storeRegistering(ctx context.Context) (res store.IngestResult, err error) {
	err = in.t.write(ctx, func(d *data) error {
		if res, err = in.fresh(d); err != nil {
			return err
		}
		v := newView(0)
		ids, names := v.missing(in.named)
		if err := v.look(d, ids, names); err != nil {
			return err
		}
		for i := range in.items {
			if in.items[i].seq == 0 {
				continue
			}
			if _, ok := v.resolve(&in.named[i]); !ok {
				if in.named[i].ID != "" {
					return errStale // the tenant was deleted meanwhile
				}
				if err := d.register(v, &in.named[i]); err != nil {
					return err
				}
			}
		}
		// The lock prevents concurrent changes of agents.
		registered := d.agents
		d.agents = false
		if registered {
			d.exec(`UPDATE trace_state SET agents_gen = agents_gen + 1 WHERE tenant = $1`, d.n)
		}
		locked := *v
		locked.gen = anyGen
		return in.keep(d, &locked)
	})
	if err == nil || errors.Is(err, errStale) {
		in.t.s.forgetView(in.n)
	}
	return in.ended(res, err)
}

// ended drops stale data about the tenant from the cache.
func (in *ingest) ended(res store.IngestResult, err error) (store.IngestResult, error) {
	switch {
	case errors.Is(err, errStale):
		in.t.s.forgetView(in.n)
		return store.IngestResult{}, err
	case errors.Is(err, errNothing):
		return res, err
	case err != nil:
		return store.IngestResult{}, err
	}
	in.t.s.feeds.Committed(in.n, [2]int64{in.seq})
	return res, nil
}
