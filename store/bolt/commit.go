package bolt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
	"svc/store/record"
	"svc/store/rollup"
)

const (
	// commitQueue bounds the batches that wait for the committer; callers of more
	// batches block.
	commitQueue = 1024
	// commitTraces bounds the traces of one commit, unless a single batch has more.
	commitTraces = 8192
)

// committer is the single goroutine that writes traces (group commit). Batches that
// arrive during a commit share the next one; the committer never waits for more
// batches.
func (s *Store) committer() {
	defer s.work.Done()
	for first := range s.commits {
		batch, n := []*ingest{first}, len(first.items)
	collect:
		for n < commitTraces {
			select {
			case in, ok := <-s.commits:
				if !ok {
					break collect
				}
				batch, n = append(batch, in), n+len(in.items)
			default:
				break collect
			}
		}
		s.commitBatch(batch)
	}
}

// commitBatch writes batches in one transaction and returns the results to their
// callers.
func (s *Store) commitBatch(batch []*ingest) {
	taken := batch[:0]
	for _, in := range batch {
		if in.phase.CompareAndSwap(ingestWaiting, ingestTaken) {
			taken = append(taken, in)
		}
	}
	if len(taken) == 0 {
		return
	}
	var writers []*writer
	s.mem.reset() // nothing refers to the memory of the previous transaction
	err := s.commit(func(tx *bbolt.Tx) error {
		writers = writers[:0]
		byTenant := map[string]*writer{}
		for _, in := range taken {
			w := byTenant[in.tenant]
			if w == nil {
				d, err := s.tenant(in.tenant).data(tx)
				if err != nil {
					in.err = err
					continue
				}
				w = newWriter(s, in.st, d)
				byTenant[in.tenant] = w
				writers = append(writers, w)
			}
			var refused *store.Error
			if err := w.apply(in); errors.As(err, &refused) {
				in.err = refused
			} else if err != nil {
				return err
			}
		}
		for _, w := range writers {
			if err := w.finish(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		for _, w := range writers {
			w.st.committed(&w.r)
		}
		select {
		case s.committed <- struct{}{}:
		default: // facetBuilder has not run since
		}
	}
	for _, in := range taken {
		if err != nil {
			in.err = err
		}
		if in.err != nil {
			in.result = store.IngestResult{}
		}
		close(in.done)
	}
}

// writer writes the traces of one tenant in one transaction.
type writer struct {
	s  *Store
	st *tenantState
	d  data
	r  resolver

	traces, ids, blocks *bbolt.Bucket
	known               cursorGetter // writes to trace_ids

	seq   uint64 // commit number of the newest trace
	count uint64 // number of traces stored
	added uint64

	registered bool // agents were registered
	horizon    int64

	tail    block  // the last block, which gets the next entries
	tailKey uint64 // its first commit number
	tailSet bool   // the block has changed
	lists   [][]rollup.Entry
	tools   map[uint64]toolCalls // calls, by agent and tool number
	fires   map[string]uint64
}

type toolCalls struct {
	n    uint64
	last int64
}

// fill is the fill ratio of pages of append-only buckets when they split.
const fill = 0.95

func newWriter(s *Store, st *tenantState, d data) *writer {
	w := &writer{
		s: s, st: st, d: d,
		traces: d.in(inTraces), ids: d.in(inTraceIDs), blocks: d.in(inTraceBlocks),
		seq: d.counter(stateSeq), count: d.counter(stateTraces),
		horizon: int64(d.counter(stateHorizon)),
		tools:   map[uint64]toolCalls{}, fires: map[string]uint64{},
	}
	w.known = cursorGetter{w.ids.Cursor()}
	w.r = resolver{st: st, d: &w.d, gen: d.counter(stateAgentGen), fresh: map[dictEntry]uint32{}, known: map[dictEntry]agentKnown{}}
	w.traces.FillPercent, w.blocks.FillPercent, w.ids.FillPercent = fill, fill, 0.9
	return w
}

// apply writes one batch. An *store.Error rejects the batch before anything of it is
// written; any other error aborts the transaction.
func (w *writer) apply(in *ingest) error {
	if !in.ready || in.gen != w.r.gen {
		if err := w.resolve(in); err != nil {
			return err
		}
		in.ready = false // entries must be computed
	}
	for i := range in.items {
		it := &in.items[i]
		switch {
		case it.trace.CreatedAt.UnixNano() < w.horizon:
			it.skip = true
			in.result.Expired++
		case w.known.get(it.key) != nil:
			it.skip = true
			in.result.Duplicates++
		}
	}
	in.result.Duplicates += in.repeat
	if !in.ready || in.result.Expired > 0 || in.result.Duplicates > in.repeat {
		in.compute()
	}
	if len(in.entries) > 0 {
		w.lists = append(w.lists, in.entries)
	}
	for i := range in.items {
		if it := &in.items[i]; !it.skip {
			if err := w.add(it); err != nil {
				return err
			}
			in.result.Accept(&it.trace)
		}
	}
	return nil
}

// resolve finds or registers the agent, and finds or makes the numbers, of every trace.
func (w *writer) resolve(in *ingest) error {
	var unknown []int
	for i := range in.items {
		it := &in.items[i]
		if it.trace.AgentID == "" {
			continue
		}
		if _, ok, err := w.r.agent(it.trace.AgentID, ""); err != nil {
			return err
		} else if !ok {
			unknown = append(unknown, it.index)
		}
	}
	if err := store.UnknownAgents(unknown); err != nil {
		return err
	}
	for i := range in.items {
		it := &in.items[i]
		if it.trace.CreatedAt.UnixNano() < w.horizon || w.known.get(it.key) != nil {
			continue // skipped traces register nothing
		}
		a, ok, err := w.r.agentOf(&it.trace)
		if err == nil && !ok {
			a, err = w.register(&it.trace, in.now)
		}
		if err != nil {
			return err
		}
		words := it.words(a)
		if err := cmp.Or(w.numberAll(words[:]), w.numberAll(it.toolWords(a)), w.numberAll([]dictEntry{it.teamWord(a)})); err != nil {
			return err
		}
		it.number(&w.r, a)
	}
	return nil
}

// numberAll assigns numbers to dictionary entries that have none.
func (w *writer) numberAll(words []dictEntry) error {
	for _, word := range words {
		if _, ok := w.r.number(word); ok {
			continue
		}
		n, err := w.d.numberOf(word)
		if err != nil {
			return err
		}
		w.r.fresh[word] = n
	}
	return nil
}

// register registers the agent that a trace names, up to the bound; beyond it the agent
// is known by name only.
func (w *writer) register(t *store.Trace, now time.Time) (agentKnown, error) {
	tn := record.Of(engine{w.s}, "")
	a, err := tn.RegisterAgent(recordTx{d: w.d}, &store.NamedAgent{Name: t.AgentName,
		ModelProvider: t.ModelProvider, ModelName: t.ModelName, Environment: t.Environment}, now.UTC())
	if err != nil {
		return agentKnown{}, err
	}
	if a.ID != "" {
		w.registered = true
		w.r.gen++
	}
	known := agentKnown{id: a.ID, name: a.Name}
	w.r.known[agentWord("", t.AgentName)] = known
	return known, nil
}

// add writes one trace.
func (w *writer) add(it *item) error {
	if err := w.openTail(); err != nil {
		return err
	}
	w.seq++
	w.added++
	key := w.key8(w.seq)
	if err := w.traces.Put(key, it.rec); err != nil {
		return err
	}
	if err := w.ids.Put(it.key, key); err != nil {
		return err
	}
	w.tail = w.tail.add(it.rec)
	w.tailSet = true
	if len(it.trace.ToolCalls) == 0 {
		w.countCalls(it, it.refs.tool, 1)
	}
	for i, tool := range it.tools {
		w.countCalls(it, tool, it.trace.ToolCalls[i].Calls)
	}
	for _, id := range it.trace.FiredPolicies() {
		w.fires[id]++
	}
	return nil
}

// countCalls counts the calls of a tool in a trace; 0 stands for no tool.
func (w *writer) countCalls(it *item, tool uint32, n int) {
	if tool == 0 {
		return
	}
	k := uint64(it.refs.agent)<<32 | uint64(tool)
	calls := w.tools[k]
	calls.n += uint64(n)
	calls.last = max(calls.last, it.trace.CreatedAt.UnixNano())
	w.tools[k] = calls
}

// key8 returns a commit number as a key, in memory that stays valid until the
// transaction ends.
func (w *writer) key8(n uint64) []byte {
	return w.s.mem.keep(binary.BigEndian.AppendUint64(w.s.mem.space(8), n))
}

// openTail sets tail to the block that gets the next trace.
func (w *writer) openTail() error {
	if w.tail == nil {
		k, v := w.blocks.Cursor().Last()
		if k == nil {
			w.tail, w.tailKey = newBlock(0), w.seq+1
			return nil
		}
		b, err := asBlock(v)
		if err != nil {
			return err
		}
		w.tailKey = number(k)
		w.tail = append(make(block, 0, blockHeader+blockCap*entrySize), b...)
		if w.tailKey+uint64(b.count()) != w.seq+1 {
			return errBlock
		}
	}
	if w.tail.count() < blockCap {
		return nil
	}
	if err := w.putTail(); err != nil {
		return err
	}
	w.tail, w.tailKey = newBlock(w.tail.latest()), w.seq+1
	return nil
}

func (w *writer) putTail() error {
	if !w.tailSet {
		return nil
	}
	w.tailSet = false
	return w.blocks.Put(w.key8(w.tailKey), w.tail)
}

// finish writes the collected changes: the last block, rollups, tools, policies and
// counters.
func (w *writer) finish() error {
	if w.registered {
		if err := w.d.setCounter(stateAgentGen, w.r.gen); err != nil {
			return err
		}
	}
	if w.added == 0 {
		return nil
	}
	if err := w.putTail(); err != nil {
		return err
	}
	if err := mergeRollups(w.d, rollup.Combine(w.lists...), &w.s.mem); err != nil {
		return err
	}
	tools := w.d.in(inTools)
	now := w.s.now()
	rows := cursorGetter{tools.Cursor()}
	for i, k := range slices.Sorted(maps.Keys(w.tools)) {
		// Tools that were first called at the same time have the same order in every
		// engine.
		if err := countTool(tools, rows, uint32(k>>32), uint32(k), w.tools[k], now.Add(time.Duration(i))); err != nil {
			return err
		}
	}
	fires, policies := w.d.in(inPolicyFires), w.d.in(record.PolicyRows)
	for id, n := range w.fires {
		if policies.Get([]byte(id)) == nil {
			continue
		}
		if err := fires.Put([]byte(id), bytes8(number(fires.Get([]byte(id)))+n)); err != nil {
			return err
		}
	}
	if err := w.d.setCounter(stateSeq, w.seq); err != nil {
		return err
	}
	return w.d.setCounter(stateTraces, w.count+w.added)
}

// cursorGetter reads many keys of a bucket. Unlike Bucket.Get it allocates nothing per
// key. It sees keys that are put between the reads.
type cursorGetter struct{ c *bbolt.Cursor }

// get returns the value of a key, nil when there is none.
func (g cursorGetter) get(key []byte) []byte {
	if k, v := g.c.Seek(key); bytes.Equal(k, key) {
		return v
	}
	return nil
}

// mergeRollups merges sorted entries into their rows.
func mergeRollups(d data, entries []rollup.Entry, mem *arena) error {
	var (
		b     *bbolt.Bucket
		rows  cursorGetter
		table = rollup.NumTables
	)
	for i := range entries {
		e := &entries[i]
		if e.Key.Table != table {
			table = e.Key.Table
			b = d.in(inRollup + table.String())
			b.FillPercent = 0.9
			rows = cursorGetter{b.Cursor()}
		}
		key := mem.keep(appendRowKey(mem.space(16), e.Key))
		stored := rows.get(key)
		row, err := rollup.AppendMerged(mem.space(len(stored)+rollup.MaxGrowth(&e.Partial)), stored, &e.Partial)
		if err != nil {
			return fmt.Errorf("rollup %s: %w", table, err)
		}
		if err := b.Put(key, mem.keep(row)); err != nil {
			return err
		}
	}
	return nil
}

// appendRowKey appends the key of a row in its table's bucket.
func appendRowKey(dst []byte, k rollup.Key) []byte {
	be := binary.BigEndian
	dst = be.AppendUint32(dst, k.Bucket)
	if k.Table.HasAllDimensions() {
		return be.AppendUint32(be.AppendUint32(be.AppendUint32(dst, k.Agent), k.Model), k.Env)
	}
	return be.AppendUint32(dst, k.Agent|k.Model|k.Env) // at most one of them is set
}
