package bolt

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"svc/store"
)

// filter is a store.TraceFilter with strings replaced by their numbers in entries.
type filter struct {
	agent, env       uint32
	byAgent, byEnv   bool
	statusMask       byte // mask of the flags to compare
	status           byte // their required values
	start, end       int64
	minCost, maxCost int64
	minScore         float64
	timeOnly         bool // only start and end are given
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

// nanos returns a time in nanoseconds, clamped to the range of int64.
func nanos(sec, ns int64) int64 {
	switch {
	case sec >= math.MaxInt64/1_000_000_000:
		return math.MaxInt64
	case sec <= math.MinInt64/1_000_000_000:
		return math.MinInt64
	}
	return ns
}

// passing sets out to the indexes of a block's matching entries, newest commit first, and
// returns their number. One list reads millions of entries, so the loop body has no branch
// on the data: every difference sets a bit of wrong. Times, costs and scores are not
// negative, and are compared as unsigned numbers.
func (c *filter) passing(b block, key uint64, out *[blockCap]sortKey) (n int) {
	if c.end < 0 || c.maxCost < 0 {
		return 0
	}
	le := binary.LittleEndian
	start, end := uint64(max(c.start, 0)), uint64(c.end)
	minCost, maxCost := uint64(max(c.minCost, 0)), uint64(c.maxCost)
	minScore := math.Float64bits(max(c.minScore, 0))
	agent, env, model := mask(c.byAgent), mask(c.byEnv), mask(c.byModel && len(c.models) == 1)
	only := uint32(0)
	if len(c.models) == 1 {
		only = c.models[0]
	}
	for i := b.count() - 1; i >= 0; i-- {
		e := b.entry(i)
		_ = e[entrySize-1]
		at, cost := le.Uint64(e[entryTime:]), le.Uint64(e[entryCost:])
		score := le.Uint64(e[entryScore:]) &^ (1 << 63) // the bits of -0
		wrong := uint64((le.Uint32(e[entryAgent:])^c.agent)&agent | (le.Uint32(e[entryEnv:])^c.env)&env |
			(le.Uint32(e[entryModel:])^only)&model | uint32((e[entryFlags]^c.status)&(c.statusMask|flagDeleted)))
		wrong |= below(at, start) | below(end, at) | below(cost, minCost) | below(maxCost, cost) | below(score, minScore)
		if len(c.models) > 1 && !slices.Contains(c.models, le.Uint32(e[entryModel:])) {
			continue
		}
		out[n] = sortKey{int64(at), key + uint64(i)}
		n += int((wrong - 1) >> 63)
	}
	return n
}

// mask returns all bits set, or none.
func mask(set bool) uint32 {
	if set {
		return math.MaxUint32
	}
	return 0
}

// below returns 1 if a is less than b, else 0.
func below(a, b uint64) uint64 {
	_, borrow := bits.Sub64(a, b, 0)
	return borrow
}

// matchRecord reports whether a record passes the filter.
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

// sortKey orders traces in a list: by time, then by commit number.
type sortKey struct {
	at  int64
	seq uint64
}

func newerFirst(a, b sortKey) int {
	return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.seq, a.seq))
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
		var keys []sortKey
		keys, total, err = newLister(ctx, d, &c, page).page()
		if err != nil {
			return err
		}
		records, text := d.in(inTraces), dictReader{d: d}
		for _, p := range keys {
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

// GetTrace returns a trace with all its fields.
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
