package bolt

import (
	"context"
	"sync/atomic"
	"time"

	"svc/store"
	"svc/store/rollup"
)

// ingest is a batch on its way to the committer. Work that does not need the write
// transaction is done before it: checks, encoding and, if every agent and string
// is known, numbers and rollups.
type ingest struct {
	tenant string
	st     *tenantState
	now    time.Time
	items  []item
	repeat int // traces left out because their id occurs earlier in the batch

	gen     uint64 // counter of changes of agents when refs were resolved
	ready   bool   // refs and entries are set
	entries []rollup.Entry

	phase  atomic.Int32 // ingestWaiting → ingestTaken or ingestGone
	done   chan struct{}
	result store.IngestResult
	err    error
}

const (
	ingestWaiting = iota
	ingestTaken
	ingestGone // the caller has returned
)

// item is one trace of a batch.
type item struct {
	trace store.Trace
	index int    // index in the caller's batch
	key   []byte // key of trace_ids
	rec   []byte // complete except for its numbers and checksum
	refs  refs
	env   uint32   // number of the environment in statistics
	tools []uint32 // numbers of the trace's ToolCalls
	agent string   // id, empty for an agent that is known by name only
	month string   // of the names of statistics
	skip  bool     // a duplicate, or expired
}

func (it *item) observation() rollup.Observation {
	t := &it.trace
	return rollup.Observation{
		At: t.CreatedAt, Agent: it.refs.agent, Model: it.refs.model, Env: it.env, Names: it.refs.names,
		Error: t.Status == store.TraceError, Blocked: t.Blocked,
		InputTokens: t.InputTokens, OutputTokens: t.OutputTokens,
		Cost: int64(t.Cost), Duration: t.Duration,
	}
}

// Ingest stores a batch of traces. Every trace is looked up by its id in the
// transaction that stores the batch, so no state per batch is stored.
func (t *tenant) Ingest(ctx context.Context, batch store.Batch) (store.IngestResult, error) {
	if err := store.CheckBatch(&batch); err != nil {
		return store.IngestResult{}, err
	}
	in, err := t.prepare(ctx, &batch)
	if err != nil || len(in.items) == 0 {
		return store.IngestResult{}, err
	}
	if err := t.s.enqueue(ctx, in); err != nil {
		return store.IngestResult{}, err
	}
	select {
	case <-in.done:
	case <-ctx.Done():
		if in.phase.CompareAndSwap(ingestWaiting, ingestGone) {
			return store.IngestResult{}, ctx.Err()
		}
		<-in.done // the batch is being committed: wait for the result
	}
	return in.result, in.err
}

// monthFormat is the format of months in names of statistics.
const monthFormat = "2006-01"

// enqueue passes a batch to the committer.
func (s *Store) enqueue(ctx context.Context, in *ingest) error {
	s.senders.RLock()
	defer s.senders.RUnlock()
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
	}
	select {
	case s.commits <- in:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prepare checks and encodes a batch.
func (t *tenant) prepare(ctx context.Context, batch *store.Batch) (*ingest, error) {
	// First check that the tenant exists: only existing tenants have a state.
	if err := t.view(ctx, func(data) error { return nil }); err != nil {
		return nil, err
	}
	in := &ingest{tenant: t.id, st: t.s.state(t.id), now: t.s.now(), done: make(chan struct{}),
		items: make([]item, 0, len(batch.Traces))}
	seen := make(map[string]struct{}, len(batch.Traces))
	arena := make([]byte, 0, 288*len(batch.Traces))
	var month, next time.Time
	var monthText string
	err := batch.Check(in.now, func() string { return t.s.ids.New(store.PrefixTrace, in.now) }, func(i int, tr *store.Trace) {
		if _, ok := seen[tr.ID]; ok {
			in.repeat++
			return
		}
		seen[tr.ID] = struct{}{}
		from := len(arena)
		arena = appendRecord(arena, tr)
		rec := arena[from:len(arena):len(arena)]
		from = len(arena)
		arena = appendPackedKey(arena, tr.ID)
		if tr.CreatedAt.Before(month) || !tr.CreatedAt.Before(next) {
			month = rollup.Month(tr.CreatedAt)
			next, monthText = month.AddDate(0, 1, 0), month.Format(monthFormat)
		}
		in.items = append(in.items, item{trace: *tr, index: i, key: arena[from:len(arena):len(arena)], rec: rec, month: monthText})
	})
	if err != nil {
		return nil, err
	}
	in.st.mu.Lock()
	in.gen = in.st.agentGen
	ready, err := in.resolve(&resolver{st: in.st})
	in.st.mu.Unlock()
	if err == nil && !ready {
		ready, err = t.resolveStored(ctx, in)
	}
	if ready {
		in.compute()
	}
	in.ready = ready
	return in, err
}

// resolveStored resolves in a read transaction what the cache does not have.
func (t *tenant) resolveStored(ctx context.Context, in *ingest) (ready bool, err error) {
	err = t.view(ctx, func(d data) error {
		in.gen = d.counter(stateAgentGen)
		r := &resolver{st: in.st, d: &d, gen: in.gen, fresh: map[dictEntry]uint32{}, known: map[dictEntry]agentKnown{}}
		ready, err = in.resolve(r)
		if err != nil {
			return err
		}
		in.st.mu.Lock()
		defer in.st.mu.Unlock()
		r.remember()
		return nil
	})
	return ready, err
}

// resolve finds the numbers of every trace; it returns false when one is unknown.
func (in *ingest) resolve(r *resolver) (bool, error) {
	for i := range in.items {
		it := &in.items[i]
		a, ok, err := r.agentOf(&it.trace)
		if err != nil || !ok || !it.number(r, a) {
			return false, err
		}
	}
	return true, nil
}

// number sets the numbers of a trace of an agent; it returns false when one is
// unknown.
func (it *item) number(r *resolver, a agentKnown) (ok bool) {
	it.agent = a.id
	to := [...]*uint32{&it.refs.agent, &it.refs.name, &it.refs.env, &it.refs.model, &it.refs.tool,
		&it.refs.names[0], &it.refs.names[1], &it.refs.names[2]}
	for i, w := range it.words(a) {
		if *to[i], ok = r.number(w); !ok {
			return false
		}
	}
	it.env = it.refs.env
	if a.team != "" {
		if it.env, ok = r.number(it.teamWord(a)); !ok {
			return false
		}
	}
	it.tools = it.tools[:0]
	for _, w := range it.toolWords(a) {
		n, ok := r.number(w)
		if !ok {
			return false
		}
		it.tools = append(it.tools, n)
	}
	return true
}

// toolWords returns the dictionary entries of the tools that a trace of a
// registered agent called, if they differ from its single tool.
func (it *item) toolWords(a agentKnown) []dictEntry {
	if a.id == "" || len(it.trace.ToolCalls) == 0 {
		return nil
	}
	words := make([]dictEntry, len(it.trace.ToolCalls))
	for i, c := range it.trace.ToolCalls {
		words[i] = dictEntry{kindTool, c.Tool, ""}
	}
	return words
}

// teamWord returns the dictionary entry of the environment of a trace of an agent in statistics.
func (it *item) teamWord(a agentKnown) dictEntry {
	return dictEntry{kindEnv, it.trace.Environment, a.team}
}

// words returns the dictionary entries of a trace of an agent. Tools have entries
// for registered agents only.
func (it *item) words(a agentKnown) [8]dictEntry {
	t := &it.trace
	tool := ""
	if a.id != "" {
		tool = t.ToolName
	}
	names := t.Names()
	return [...]dictEntry{agentWord(a.id, a.name), {kindName, a.name, ""}, {kindEnv, t.Environment, ""},
		{kindModel, t.ModelProvider, t.ModelName}, {kindTool, tool, ""},
		nameEntry(rollup.Tool, names[0], it.month), nameEntry(rollup.Rule, names[1], it.month), nameEntry(rollup.Client, names[2], it.month)}
}

// compute seals the records and computes the rollups of the traces that are not
// skipped.
func (in *ingest) compute() {
	obs := make([]rollup.Observation, 0, len(in.items))
	for i := range in.items {
		it := &in.items[i]
		if it.skip {
			continue
		}
		seal(it.rec, it.refs)
		obs = append(obs, it.observation())
	}
	in.entries = rollup.Compute(obs)
}
