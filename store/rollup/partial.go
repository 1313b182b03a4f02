package rollup

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"
)

// Partial is the aggregate state of some traces: the contents of one row.
type Partial struct {
	Traces       int64
	Errors       int64
	Blocked      int64
	InputTokens  int64
	OutputTokens int64
	Cost         int64 // nano-dollars
	Duration     int64 // nanoseconds, summed
	Min, Max     int64 // bounds of the durations, nanoseconds; 0 without traces
	Bins         []Bin // the duration sketch, by ascending Index
}

// ErrPartial means that bytes are not an encoded partial.
var ErrPartial = errors.New("rollup: damaged partial")

const counters = 7

func (p *Partial) addCounters(o *Partial) {
	switch {
	case o.Traces == 0:
	case p.Traces == 0:
		p.Min, p.Max = o.Min, o.Max
	default:
		p.Min, p.Max = min(p.Min, o.Min), max(p.Max, o.Max)
	}
	p.Traces = addCap(p.Traces, o.Traces)
	p.Errors = addCap(p.Errors, o.Errors)
	p.Blocked = addCap(p.Blocked, o.Blocked)
	p.InputTokens = addCap(p.InputTokens, o.InputTokens)
	p.OutputTokens = addCap(p.OutputTokens, o.OutputTokens)
	p.Cost = addCap(p.Cost, o.Cost)
	p.Duration = addCap(p.Duration, o.Duration)
}

// addCap adds two non-negative values and saturates at the maximum.
func addCap(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxInt64
}

// Merge adds another partial.
func (p *Partial) Merge(o *Partial) {
	p.addCounters(o)
	p.Bins = sumBins(slices.Concat(p.Bins, o.Bins))
}

// A row begins with a zero byte and the version of its encoding. Rows without a
// version, from older programs, begin with the number of their traces, which is not
// zero; they have no bounds.
const (
	versioned = 0
	version   = 1
)

// Append encodes the partial: a zero byte and the version, nine unsigned varints
// (traces, errors, blocked, input tokens, output tokens, cost, duration, Min,
// distance from Min to Max), then pairs of the distance to the previous bin and the
// count of the bin, to the end.
func (p *Partial) Append(dst []byte) []byte {
	dst = p.appendHeader(dst)
	prev := uint16(0)
	for _, b := range p.Bins {
		dst = binary.AppendUvarint(dst, uint64(b.Index-prev))
		dst = binary.AppendUvarint(dst, b.Count)
		prev = b.Index
	}
	return dst
}

func (p *Partial) appendHeader(dst []byte) []byte {
	dst = append(dst, versioned, version)
	dst = binary.AppendUvarint(dst, uint64(p.Traces))
	dst = binary.AppendUvarint(dst, uint64(p.Errors))
	dst = binary.AppendUvarint(dst, uint64(p.Blocked))
	dst = binary.AppendUvarint(dst, uint64(p.InputTokens))
	dst = binary.AppendUvarint(dst, uint64(p.OutputTokens))
	dst = binary.AppendUvarint(dst, uint64(p.Cost))
	dst = binary.AppendUvarint(dst, uint64(p.Duration))
	dst = binary.AppendUvarint(dst, uint64(p.Min))
	return binary.AppendUvarint(dst, uint64(p.Max-p.Min))
}

// Decode decodes a partial, also in the encoding without a version. It returns
// ErrPartial for anything else.
func Decode(data []byte) (Partial, error) {
	p, data, err := decodeHeader(data)
	if err != nil {
		return Partial{}, err
	}
	r := binReader{data: data, first: true}
	for {
		b, ok := r.next()
		if !ok {
			break
		}
		p.Bins = append(p.Bins, b)
	}
	if r.bad {
		return Partial{}, ErrPartial
	}
	return p, nil
}

// decodeHeader reads the fields before the bins. For a row without bounds, the edges
// of its first and its last bin are the bounds.
func decodeHeader(data []byte) (p Partial, bins []byte, err error) {
	p, bins, bounded, err := decodeNumbers(data)
	if err == nil && !bounded {
		err = p.boundByBins(bins)
	}
	return p, bins, err
}

// decodeNumbers reads the fields before the bins, unchanged.
func decodeNumbers(data []byte) (p Partial, bins []byte, bounded bool, err error) {
	var v [counters + 2]int64
	n := counters
	if len(data) > 0 && data[0] == versioned {
		if len(data) < 2 || data[1] != version {
			return Partial{}, nil, false, ErrPartial
		}
		data, n, bounded = data[2:], len(v), true
	}
	for i := range n {
		u, n := binary.Uvarint(data)
		if n <= 0 || u > math.MaxInt64 {
			return Partial{}, nil, false, ErrPartial
		}
		v[i], data = int64(u), data[n:]
	}
	p = Partial{Traces: v[0], Errors: v[1], Blocked: v[2], InputTokens: v[3],
		OutputTokens: v[4], Cost: v[5], Duration: v[6], Min: v[7], Max: v[7] + v[8]}
	if p.Max < p.Min {
		return Partial{}, nil, false, ErrPartial
	}
	return p, data, bounded, nil
}

// boundByBins sets the bounds of a partial from its encoded bins.
func (p *Partial) boundByBins(bins []byte) error {
	r := binReader{data: bins, first: true}
	b, ok := r.next()
	p.Min, p.Max = 0, math.MaxInt64
	if ok {
		p.Min = int64(binLow(b.Index))
	}
	for ; ok; b, ok = r.next() {
		p.Max = int64(binHigh(b.Index))
	}
	if r.bad {
		return ErrPartial
	}
	return nil
}

// AppendMerged appends the encoding of a stored partial merged with p, without
// decoding the stored one. An empty stored partial is one without traces.
func AppendMerged(dst, stored []byte, p *Partial) ([]byte, error) {
	if len(stored) == 0 {
		return p.Append(dst), nil
	}
	sum, rest, err := decodeHeader(stored)
	if err != nil {
		return dst, err
	}
	sum.addCounters(p)
	dst = sum.appendHeader(dst)
	return appendMergedBins(dst, rest, p.Bins)
}

// appendMergedBins appends encoded bins merged with more bins. A batch adds few bins
// to a row with hundreds, so the bytes between two new bins are copied unchanged, and
// only the bin after a new one is encoded again.
func appendMergedBins(dst, stored []byte, bins []Bin) ([]byte, error) {
	var (
		index   int          // index of the last bin read, and of the last one written before stored[run:]
		run, at int          // stored[run:at] has been read and not written yet
		wanted  = next(bins) // position of the next new bin
		first   = true
	)
	for at < len(stored) {
		delta, n := uvarint(stored[at:])
		if n <= 0 || delta >= NumBins || delta == 0 && !first {
			return dst, ErrPartial
		}
		count, m := uvarint(stored[at+n:])
		here := index + int(delta)
		if m <= 0 || count == 0 || count > math.MaxInt64 || here >= NumBins {
			return dst, ErrPartial
		}
		if wanted <= here {
			dst = append(dst, stored[run:at]...)
			for wanted < here {
				dst = appendBin(dst, &index, bins[0])
				bins = bins[1:]
				wanted = next(bins)
			}
			if wanted == here {
				count += bins[0].Count
				bins = bins[1:]
				wanted = next(bins)
			}
			dst = appendBin(dst, &index, Bin{Index: uint16(here), Count: count})
			run = at + n + m
		}
		index, at, first = here, at+n+m, false
	}
	dst = append(dst, stored[run:]...)
	for _, b := range bins {
		dst = appendBin(dst, &index, b)
	}
	return dst, nil
}

// next returns the index of the first bin, or an index beyond all bins when there is
// none.
func next(bins []Bin) int {
	if len(bins) == 0 {
		return NumBins
	}
	return int(bins[0].Index)
}

// appendBin appends a bin after the bin with index *prev.
func appendBin(dst []byte, prev *int, b Bin) []byte {
	dst = binary.AppendUvarint(dst, uint64(int(b.Index)-*prev))
	*prev = int(b.Index)
	return binary.AppendUvarint(dst, b.Count)
}

// uvarint is binary.Uvarint with a fast path for one byte, the usual case.
func uvarint(data []byte) (uint64, int) {
	if len(data) > 0 && data[0] < 0x80 {
		return uint64(data[0]), 1
	}
	return binary.Uvarint(data)
}

// MaxGrowth returns by how many bytes the result of AppendMerged can be longer than
// the stored partial.
func MaxGrowth(p *Partial) int {
	return 2 + (counters+2)*binary.MaxVarintLen64 + len(p.Bins)*(2+2*binary.MaxVarintLen64)
}

// binReader reads encoded bins one by one.
type binReader struct {
	data  []byte
	prev  uint16
	first bool
	bad   bool
}

func (r *binReader) next() (Bin, bool) {
	if len(r.data) == 0 || r.bad {
		return Bin{}, false
	}
	delta, n := binary.Uvarint(r.data)
	if n <= 0 || delta >= NumBins || delta == 0 && !r.first {
		r.bad = true
		return Bin{}, false
	}
	count, m := binary.Uvarint(r.data[n:])
	index := uint64(r.prev) + delta
	if m <= 0 || index >= NumBins || count == 0 || count > math.MaxInt64 {
		r.bad = true
		return Bin{}, false
	}
	r.data, r.prev, r.first = r.data[n+m:], uint16(index), false
	return Bin{Index: uint16(index), Count: count}, true
}

// Sum accumulates encoded partials, for queries over many rows. The zero value is
// ready for use.
type Sum struct {
	Partial          // its Bins are not used
	bins    []uint64 // counts of bins, starting with bin base
	base    int
}

// Add adds an encoded partial, with its sketch when quantiles are wanted.
func (s *Sum) Add(data []byte, sketch bool) error {
	p, rest, bounded, err := decodeNumbers(data)
	if err != nil {
		return err
	}
	if !bounded && sketch {
		if err := p.boundByBins(rest); err != nil {
			return err
		}
	}
	s.addCounters(&p)
	if !sketch {
		return nil
	}
	index, first := 0, true
	for len(rest) > 0 {
		// Fast path: almost every distance and count is one byte.
		delta, n := uint64(rest[0]), 1
		if delta >= 0x80 {
			delta, n = binary.Uvarint(rest)
		}
		if n <= 0 || n == len(rest) || delta >= NumBins || delta == 0 && !first {
			return ErrPartial
		}
		rest = rest[n:]
		count, m := uint64(rest[0]), 1
		if count >= 0x80 {
			count, m = binary.Uvarint(rest)
		}
		index += int(delta)
		first = false
		if m <= 0 || index >= NumBins || count == 0 || count > math.MaxInt64 {
			return ErrPartial
		}
		rest = rest[m:]
		if i := index - s.base; uint(i) < uint(len(s.bins)) {
			s.bins[i] += count
		} else {
			s.count(index, count)
		}
	}
	return nil
}

// Merge adds another sum.
func (s *Sum) Merge(o *Sum) {
	s.addCounters(&o.Partial)
	for i, n := range o.bins {
		if n > 0 {
			s.count(o.base+i, n)
		}
	}
}

func (s *Sum) count(index int, n uint64) {
	if i := index - s.base; i >= 0 && i < len(s.bins) {
		s.bins[i] += n
		return
	}
	// Grow by whole octaves with spare capacity, so that it happens rarely: at first
	// to durations around this one, then doubling.
	lo, hi := index&^(subBins-1)-2*subBins, (index|(subBins-1))+1+5*subBins
	if len(s.bins) > 0 {
		lo, hi = s.base, s.base+len(s.bins)
		for index < lo {
			lo -= len(s.bins)
		}
		for index >= hi {
			hi += len(s.bins)
		}
	}
	lo, hi = max(lo, 0), min(hi, NumBins)
	bins := make([]uint64, hi-lo)
	if len(s.bins) > 0 {
		copy(bins[s.base-lo:], s.bins)
	}
	s.bins, s.base = bins, lo
	s.bins[index-lo] += n
}

// Quantile returns the nearest-rank quantile over the durations added with their
// sketch: the value of the smallest bin such that at least ceil(q·n) of the n
// durations are in it or below. Its relative error is at most MaxRelativeError, and
// it is not below the smallest duration or above the largest. It is 0 without
// durations; q is clamped to 0..1.
func (s *Sum) Quantile(q float64) time.Duration {
	index, ok := s.bin(q)
	if !ok {
		return 0
	}
	return time.Duration(min(max(int64(binValue(index)), s.Min), s.Max))
}

// QuantileLow returns the lower bound of the quantile. Limits are compared with it,
// so that the width of a bin cannot make a limit look exceeded.
func (s *Sum) QuantileLow(q float64) time.Duration {
	index, ok := s.bin(q)
	if !ok {
		return 0
	}
	return time.Duration(min(max(int64(binLow(index)), s.Min), s.Max))
}

// bin returns the bin of a quantile.
func (s *Sum) bin(q float64) (index uint16, ok bool) {
	var total uint64
	for _, n := range s.bins {
		total += n
	}
	if total == 0 {
		return 0, false
	}
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(total)))
	rank = min(max(rank, 1), total)
	for i, n := range s.bins {
		if rank <= n {
			return uint16(s.base + i), true
		}
		rank -= n
	}
	return 0, false
}
