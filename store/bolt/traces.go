package bolt

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"svc/store"
)

// filter is a store.TraceFilter in the terms of entries.
type filter struct {
	agent, env       uint32
	byAgent, byEnv   bool
	statusMask       byte // these flags
	status           byte // must be this
	start, end       int64
	minCost, maxCost int64
	minScore         float64
	timeOnly         bool // nothing but start and end is given
	none             bool // nothing can match

	byModel bool
	models  []uint32 // the numbers of the models with the name, of all providers
	inRecord
}

func (d data) filter(f *store.TraceFilter) filter {
	c := filter{start: math.MinInt64, end: math.MaxInt64,
		minCost: math.MinInt64, maxCost: math.MaxInt64, minScore: math.Inf(-1), timeOnly: true}
	if f.AgentID != "" {
		n, ok := d.lookup(agentWord(f.AgentID, ""))
		c.agent, c.byAgent, c.none, c.timeOnly = n, true, c.none || !ok, false
	}
	if f.Environment != "" {
		n, ok := d.lookup(dictEntry{kindEnv, f.Environment, ""})
		c.env, c.byEnv, c.none, c.timeOnly = n, true, c.none || !ok, false
	}
	switch f.Status {
	case "":
	case store.TraceError:
		c.statusMask, c.status, c.timeOnly = flagError, flagError, false
	case store.TraceSuccess:
		c.statusMask, c.status, c.timeOnly = flagError, 0, false
	case store.TraceBlocked:
		c.statusMask, c.status, c.timeOnly = flagBlocked, flagBlocked, false
	case store.TraceFailed:
		c.statusMask, c.status, c.timeOnly = flagError|flagBlocked, flagError, false
	default:
		c.none = true
	}
	if f.ModelName != "" {
		c.models = d.modelsNamed(f.ModelName)
		c.byModel, c.none, c.timeOnly = true, c.none || len(c.models) == 0, false
	}
	if !f.Start.IsZero() {
		c.start = nanos(f.Start.Unix(), f.Start.UnixNano())
	}
	if !f.End.IsZero() {
		c.end = nanos(f.End.Unix(), f.End.UnixNano())
	}
	if f.MinCost != nil {
		c.minCost, c.timeOnly = int64(*f.MinCost), false
	}
	if f.MaxCost != nil {
		c.maxCost, c.timeOnly = int64(*f.MaxCost), false
	}
	if f.MinInjectionScore != nil {
		c.minScore, c.timeOnly = *f.MinInjectionScore, false
	}
	if c.inRecord = d.recordFilter(f); c.byRecord {
		c.none, c.timeOnly = c.none || c.unknownName, false
	}
	return c
}

// nanos is a time in nanoseconds, or the nearest that there is.
func nanos(sec, ns int64) int64 {
	switch {
	case sec >= math.MaxInt64/1_000_000_000:
		return math.MaxInt64
	case sec <= math.MinInt64/1_000_000_000:
		return math.MinInt64
	}
	return ns
}

// match reports whether a live entry passes.
func (c *filter) match(e []byte) bool {
	le := binary.LittleEndian
	_ = e[entrySize-1]
	flags := e[entryFlags]
	if flags&flagDeleted != 0 || flags&c.statusMask != c.status ||
		c.byModel && !slices.Contains(c.models, le.Uint32(e[entryModel:])) ||
		c.byAgent && le.Uint32(e[entryAgent:]) != c.agent || c.byEnv && le.Uint32(e[entryEnv:]) != c.env {
		return false
	}
	at, cost := int64(le.Uint64(e[entryTime:])), int64(le.Uint64(e[entryCost:]))
	return at >= c.start && at <= c.end && cost >= c.minCost && cost <= c.maxCost &&
		math.Float64frombits(le.Uint64(e[entryScore:])) >= c.minScore
}

// matchRecord reports whether a record passes.
func (c *filter) matchRecord(rec []byte) bool {
	if len(rec) < recFixed {
		return false
	}
	le := binary.LittleEndian
	flags := rec[1]
	if flags&c.statusMask != c.status || c.byModel && !slices.Contains(c.models, le.Uint32(rec[recModel:])) ||
		c.byAgent && le.Uint32(rec[recAgent:]) != c.agent || c.byEnv && le.Uint32(rec[recEnv:]) != c.env {
		return false
	}
	at, cost := int64(le.Uint64(rec[recTime:])), int64(le.Uint64(rec[recCost:]))
	return at >= c.start && at <= c.end && cost >= c.minCost && cost <= c.maxCost &&
		math.Float64frombits(le.Uint64(rec[recScore:])) >= c.minScore
}

// sortKey orders traces in a list: by time, then by commit.
type sortKey struct {
	at  int64
	seq uint64
}

func newerFirst(a, b sortKey) int {
	return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.seq, a.seq))
}

// newestPlaces keeps the newest places of many.
type newestPlaces struct {
	keep  int
	list  []sortKey
	floor int64 // once full: what is older cannot get in
	full  bool

	after  sortKey // where behind is set, what is newer, or this itself, does not get in
	behind bool
}

// keepBehind keeps only what is behind a place. A trace that retention removed
// meanwhile was the last one of its time: what is as old went with it.
func (n *newestPlaces) keepBehind(d data, p store.Place) {
	if p == (store.Place{}) {
		return
	}
	n.behind = true
	n.after = sortKey{at: nanos(p.At.Unix(), p.At.UnixNano())}
	if seq := d.in(inTraceIDs).Get(packedKey(p.ID)); seq != nil {
		n.after.seq = number(seq)
	}
}

func (n *newestPlaces) add(p sortKey) {
	if n.behind && newerFirst(n.after, p) >= 0 {
		return
	}
	if n.full && p.at < n.floor {
		return
	}
	n.list = append(n.list, p)
	if len(n.list) >= 2*n.keep+64 {
		n.shrink()
	}
}

func (n *newestPlaces) shrink() {
	slices.SortFunc(n.list, newerFirst)
	if len(n.list) >= n.keep {
		n.list = n.list[:n.keep]
		if n.keep > 0 {
			n.floor = n.list[n.keep-1].at
		}
		n.full = true
	}
}

// ListTraces returns the traces that pass the filter, newest first.
func (t *tenant) ListTraces(ctx context.Context, f store.TraceFilter, page store.Page) (list []store.Trace, total int, err error) {
	list = []store.Trace{}
	err = t.view(ctx, func(d data) error {
		list, total = list[:0], 0
		c := d.filter(&f)
		if c.none {
			return nil
		}
		stored := int(d.counter(stateTraces))
		offset := max(page.Offset, 0)
		want := newestPlaces{keep: stored}
		if page.Limit > 0 && page.Limit < stored-min(offset, stored) {
			want.keep = offset + page.Limit
		}
		if offset >= stored {
			want.keep = 0 // only the total is wanted
		}
		want.keepBehind(d, page.After)
		if total, err = scan(ctx, d, &c, &want, stored); err != nil {
			return err
		}
		want.shrink()
		from, to := page.Bounds(len(want.list))
		records, text := d.in(inTraces), dictReader{d: d}
		for _, p := range want.list[from:to] {
			tr, r, err := decodeRecord(records.Get(bytes8(p.seq)), false)
			if err != nil {
				return err
			}
			text.fill(&tr, r)
			list = append(list, tr)
		}
		return nil
	})
	return list, total, err
}

// scan counts the traces that pass and keeps the newest, block by block from the
// newest commit on.
func scan(ctx context.Context, d data, c *filter, want *newestPlaces, stored int) (total int, err error) {
	le := binary.LittleEndian
	all := c.timeOnly && c.start == math.MinInt64 && c.end == math.MaxInt64
	cur, records := d.in(inTraceBlocks).Cursor(), backwards{c: d.in(inTraces).Cursor()}
	visited := 0
	for k, v := cur.Last(); k != nil; k, v = cur.Prev() {
		if visited++; (visited%256 == 0 || c.byRecord) && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		b, err := asBlock(v)
		if err != nil {
			return 0, err
		}
		done := want.keep == 0 || want.full && b.latest() < want.floor
		if all && done {
			return stored, nil // neither this block nor an older one can add to the page
		}
		least, greatest, live := b.minTime(), b.maxTime(), b.live()
		if live == 0 || greatest < c.start || least > c.end {
			continue
		}
		if c.timeOnly && least >= c.start && greatest <= c.end {
			total += live
			if want.keep == 0 || want.full && greatest < want.floor || want.behind && least > want.after.at {
				continue
			}
			for i := b.count() - 1; i >= 0; i-- {
				if e := b.entry(i); e[entryFlags]&flagDeleted == 0 {
					want.add(sortKey{int64(le.Uint64(e)), number(k) + uint64(i)})
				}
			}
			continue
		}
		for i := b.count() - 1; i >= 0; i-- { // newest first: what is in order sorts fast
			e := b.entry(i)
			if !c.match(e) {
				continue
			}
			if c.byRecord {
				ok, err := c.matchDetails(records.get(number(k) + uint64(i)))
				if err != nil {
					return 0, err
				}
				if !ok {
					continue
				}
			}
			total++
			if want.keep > 0 {
				want.add(sortKey{int64(le.Uint64(e)), number(k) + uint64(i)})
			}
		}
	}
	return total, nil
}

// GetTrace returns everything of one trace.
func (t *tenant) GetTrace(ctx context.Context, id string) (tr store.Trace, err error) {
	err = t.view(ctx, func(d data) error {
		seq := d.in(inTraceIDs).Get(packedKey(id))
		if seq == nil {
			return store.Missing("trace")
		}
		var r refs
		if tr, r, err = decodeRecord(d.in(inTraces).Get(seq), true); err != nil {
			return err
		}
		text := dictReader{d: d}
		text.fill(&tr, r)
		return nil
	})
	return tr, err
}
