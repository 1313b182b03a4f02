package bolt

import (
	"cmp"
	"context"
	"math"
	"slices"

	"go.etcd.io/bbolt"

	"svc/store"
)

// lister finds one page of a list of traces. It first counts the matching traces of every
// block, and then reads only the blocks that can have a part of the page: blocks that are
// wholly newer than the page are skipped by their counts, so that a page far down the list
// costs little more than the first. Memory is bounded by the number of blocks and the length
// of the page, whatever the offset.
type lister struct {
	ctx      context.Context
	d        data
	c        *filter
	from, to int // bounds of the page, in the list of matching traces after the position after

	after  sortKey // if behind is set, traces that are newer than after, and after itself, do not count
	behind bool

	few     int // fewKeys, except in tests
	records backwards
	facets  descending
	block   [blockCap]sortKey
	keys    []sortKey // keys of the current block
	parts   []part
	lo, hi  int64 // the time bounds of the page
}

// part is the set of traces of a block that match and are after the start position of the
// page.
type part struct {
	key             uint64 // of the block
	count           int
	least, greatest int64 // bounds of creation times
}

const (
	// fewKeys is the number of traces between the bounds of a page that are sorted without
	// narrowing the bounds first.
	fewKeys = 1 << 16
	// timeSlots is the number of time slots into which the interval between the bounds of a
	// page is divided to narrow them.
	timeSlots = 1 << 12
	// maxRounds bounds the number of such rounds. They cannot separate traces with equal
	// times.
	maxRounds = 6
)

func newLister(ctx context.Context, d data, c *filter, p store.Page) *lister {
	l := &lister{ctx: ctx, d: d, c: c, few: fewKeys, records: backwards{c: d.in(inTraces).Cursor()}, facets: descending{c: d.in(inTraceFacets).Cursor()},
		from: max(p.Offset, 0), to: math.MaxInt, lo: math.MinInt64, hi: math.MaxInt64}
	if p.Limit > 0 && p.Limit < math.MaxInt-l.from {
		l.to = l.from + p.Limit
	}
	if p.After != (store.Place{}) {
		// If retention has removed the trace at the position meanwhile, it has also removed
		// all that are as old.
		l.behind, l.after = true, sortKey{at: nanos(p.After.At.Unix(), p.After.At.UnixNano())}
		if seq := d.in(inTraceIDs).Get(packedKey(p.After.ID)); seq != nil {
			l.after.seq = number(seq)
		}
	}
	return l
}

// page returns the sort keys of the traces on the page, and the number of matching traces.
func (l *lister) page() (keys []sortKey, total int, err error) {
	if total, err = l.count(); err != nil {
		return nil, 0, err
	}
	in := l.bound()
	for round := 0; round < maxRounds && in > l.few && in/4 > l.to-l.from && l.lo < l.hi; round++ {
		if in, err = l.narrow(); err != nil {
			return nil, 0, err
		}
	}
	newer := 0
	err = l.each(func(passing []sortKey) {
		for _, k := range passing {
			if k.at > l.hi {
				newer++
			} else if k.at >= l.lo {
				keys = append(keys, k)
			}
		}
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(keys, newerFirst)
	return keys[min(max(l.from-newer, 0), len(keys)):min(max(l.to-newer, 0), len(keys))], total, nil
}

// count makes parts of the blocks, newest first, and counts the matching traces.
func (l *lister) count() (total int, err error) {
	stored := int(l.d.counter(stateTraces))
	all := l.c.timeOnly && l.c.start == math.MinInt64 && l.c.end == math.MaxInt64
	if all && l.from >= stored {
		return stored, nil
	}
	cur := l.d.in(inTraceBlocks).Cursor()
	passed, look, visited := 0, l.to, 0
	for k, v := cur.Last(); k != nil; k, v = cur.Prev() {
		if visited++; (visited%256 == 0 || l.c.byRecord) && l.ctx.Err() != nil {
			return 0, l.ctx.Err()
		}
		b, err := asBlock(v)
		if err != nil {
			return 0, err
		}
		latest := b.latest()
		if latest < l.c.start {
			break // older blocks have no such trace either
		}
		if all && passed >= look {
			if l.newerThan(latest) >= l.to {
				break // neither this block nor an older one has a part
			}
			look = passed + passed/8
		}
		p, passing, err := l.part(b, number(k))
		if err != nil {
			return 0, err
		}
		total += passing
		if p.count > 0 {
			passed += p.count
			l.parts = append(l.parts, p)
		}
	}
	if all {
		total = stored
	}
	return total, nil
}

// part returns the part of a block, and how many of its traces match anywhere in the list. If
// the block's own count and time bounds are sufficient, its entries are not read.
func (l *lister) part(b block, key uint64) (p part, passing int, err error) {
	p = part{key: key, least: math.MaxInt64, greatest: math.MinInt64}
	least, greatest, live := b.minTime(), b.maxTime(), b.live()
	if live == 0 || greatest < l.c.start || least > l.c.end {
		return p, 0, nil
	}
	if l.c.timeOnly && least >= l.c.start && greatest <= l.c.end {
		switch {
		case l.behind && least > l.after.at:
			return p, live, nil
		case !l.behind || greatest < l.after.at:
			p.count, p.least, p.greatest = live, least, greatest
			return p, live, nil
		}
	}
	if passing, err = l.read(b, key); err != nil {
		return p, 0, err
	}
	for _, k := range l.keys {
		p.count, p.least, p.greatest = p.count+1, min(p.least, k.at), max(p.greatest, k.at)
	}
	return p, passing, nil
}

// read sets keys to the traces of a block that match and are after the start position of the
// page, newest commit first, and counts all that match.
func (l *lister) read(b block, key uint64) (passing int, err error) {
	l.keys = l.keys[:0]
	in, sure := firstTraces(b.count()), !l.c.byRecord
	if l.c.byRecord {
		raw := l.facets.get(key)
		if raw != nil {
			f, err := asFacets(raw)
			if err == nil {
				in, sure, err = l.c.matchFacets(f)
			}
			if err != nil {
				return 0, err
			}
			if in.empty() {
				return 0, nil
			}
		}
	}
	passed := l.block[:l.c.passing(b, key, &l.block)]
	if !l.behind && !l.c.byRecord {
		l.keys = passed
		return len(passed), nil
	}
	for _, k := range passed {
		if !in.has(int(k.seq - key)) {
			continue
		}
		if !sure {
			if ok, err := l.c.matchDetails(l.records.get(k.seq)); err != nil {
				return 0, err
			} else if !ok {
				continue
			}
		}
		passing++
		if !l.behind || newerFirst(l.after, k) < 0 {
			l.keys = append(l.keys, k)
		}
	}
	return passing, nil
}

// newerThan counts the traces in parts that are entirely newer than a time.
func (l *lister) newerThan(at int64) (n int) {
	for i := range l.parts {
		if l.parts[i].least > at {
			n += l.parts[i].count
		}
	}
	return n
}

// bound computes time bounds of the page from the counts and times of the parts, and returns
// how many traces of the parts may be between them.
//
// Sort the parts by their greatest times, descending. Take the part at which the sum of
// counts first exceeds from. The parts before it contain all traces that are newer than
// its greatest time, which are at most from. So that time bounds the first trace of the
// page. The other bound is found in the same way from the least times.
func (l *lister) bound() (in int) {
	type counted struct {
		at    int64
		count int
	}
	order := make([]counted, len(l.parts))
	at := func(enough int, time func(*part) int64) (int64, bool) {
		for i := range l.parts {
			order[i] = counted{time(&l.parts[i]), l.parts[i].count}
		}
		slices.SortFunc(order, func(a, b counted) int { return cmp.Compare(b.at, a.at) })
		for _, o := range order {
			if enough -= o.count; enough <= 0 {
				return o.at, true
			}
		}
		return 0, false
	}
	hi, ok := at(l.from+1, func(p *part) int64 { return p.greatest })
	if !ok {
		l.parts = nil // the page is after the end of the list
		return 0
	}
	lo, ok := at(l.to, func(p *part) int64 { return p.least })
	if !ok {
		lo = math.MinInt64
	}
	l.between(lo, hi)
	for i := range l.parts {
		in += l.parts[i].count
	}
	return in
}

// between narrows the time bounds of the page, and drops the parts that have no trace between
// them.
func (l *lister) between(lo, hi int64) {
	left, least, greatest := l.parts[:0], int64(math.MaxInt64), int64(math.MinInt64)
	for _, p := range l.parts {
		switch {
		case p.least > hi:
			l.from, l.to = l.from-p.count, less(l.to, p.count)
		case p.greatest >= lo:
			left = append(left, p)
			least, greatest = min(least, p.least), max(greatest, p.greatest)
		}
	}
	l.parts, l.lo, l.hi = left, max(lo, least), min(hi, greatest)
}

// less returns the end of a page after some traces before it were left out.
func less(to, n int) int {
	if to == math.MaxInt {
		return to
	}
	return to - n
}

// narrow reads the parts, divides the time between the bounds into slots, and moves the
// bounds to the slots in which the page begins and ends. It returns how many traces are
// between the new bounds.
func (l *lister) narrow() (in int, err error) {
	width := (uint64(l.hi)-uint64(l.lo))/timeSlots + 1
	var slots [timeSlots]int
	newer := 0
	err = l.each(func(passing []sortKey) {
		for _, k := range passing {
			if k.at > l.hi {
				newer++
			} else if k.at >= l.lo {
				slots[(uint64(k.at)-uint64(l.lo))/width]++
			}
		}
	})
	if err != nil {
		return 0, err
	}
	first, last := len(slots)-1, 0
	for i, n := len(slots)-1, newer; i >= 0; i-- {
		if n += slots[i]; n <= l.from {
			first = i - 1
		}
		if n >= l.to {
			last = i
			break
		}
	}
	for i := last; i <= first; i++ {
		in += slots[i]
	}
	whole := uint64(l.hi) - uint64(l.lo)
	lo := l.lo + int64(uint64(last)*width)
	hi := l.lo + int64(min(uint64(first+1)*width-1, whole))
	l.between(lo, hi)
	return in, nil
}

// each reads the blocks of the parts, and calls fn with the matching traces of each.
func (l *lister) each(fn func(passing []sortKey)) error {
	blocks := l.d.in(inTraceBlocks).Cursor()
	for i := range l.parts {
		if (i%256 == 255 || l.c.byRecord) && l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		b, err := blockAt(blocks, l.parts[i].key)
		if err != nil {
			return err
		}
		if _, err := l.read(b, l.parts[i].key); err != nil {
			return err
		}
		fn(l.keys)
	}
	return nil
}

// blockAt reads the block with the given first commit number.
func blockAt(c *bbolt.Cursor, key uint64) (block, error) {
	k, v := c.Seek(bytes8(key))
	if number(k) != key {
		return nil, errBlock
	}
	return asBlock(v)
}

// descending reads values of descending keys that are close to each other.
type descending struct {
	c    *bbolt.Cursor
	k, v []byte
}

// get returns a value, nil when there is none.
func (d *descending) get(key uint64) []byte {
	if d.k == nil || number(d.k) < key { // the first call, or a new pass
		if d.k, d.v = d.c.Seek(bytes8(key)); d.k == nil {
			d.k, d.v = d.c.Last()
		}
	}
	for d.k != nil && number(d.k) > key {
		d.k, d.v = d.c.Prev()
	}
	if d.k == nil || number(d.k) != key {
		return nil
	}
	return d.v
}
