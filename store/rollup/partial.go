package rollup

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
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

// numbers is the number of varints before the bins of an encoded partial.
const numbers = 9

func (p *Partial) addCounters(o *Partial) {
	switch {
	case o.Traces == 0:
	case p.Traces == 0:
		p.Min, p.Max = o.Min, o.Max
	default:
		p.Min, p.Max = min(p.Min, o.Min), max(p.Max, o.Max)
	}
	p.Traces = AddCap(p.Traces, o.Traces)
	p.Errors = AddCap(p.Errors, o.Errors)
	p.Blocked = AddCap(p.Blocked, o.Blocked)
	p.InputTokens = AddCap(p.InputTokens, o.InputTokens)
	p.OutputTokens = AddCap(p.OutputTokens, o.OutputTokens)
	p.Cost = AddCap(p.Cost, o.Cost)
	p.Duration = AddCap(p.Duration, o.Duration)
}

// AddCap adds two non-negative values and saturates at the maximum.
func AddCap(a, b int64) int64 {
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

// version is the first byte of an encoded partial.
const version = 1

// Append encodes the partial: the version, nine unsigned varints (traces, errors, blocked, input tokens, output tokens, cost, duration, Min,
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
	dst = append(dst, version)
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

// Decode decodes a partial. It returns ErrPartial for anything else.
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

// decodeHeader reads the fields before the bins.
func decodeHeader(data []byte) (p Partial, bins []byte, err error) {
	if len(data) == 0 || data[0] != version {
		return Partial{}, nil, ErrPartial
	}
	data = data[1:]
	var v [numbers]int64
	for i := range v {
		u, n := binary.Uvarint(data)
		if n <= 0 || u > math.MaxInt64 {
			return Partial{}, nil, ErrPartial
		}
		v[i], data = int64(u), data[n:]
	}
	p = Partial{Traces: v[0], Errors: v[1], Blocked: v[2], InputTokens: v[3],
		OutputTokens: v[4], Cost: v[5], Duration: v[6], Min: v[7], Max: v[7] + v[8]}
	if p.Max < p.Min {
		return Partial{}, nil, ErrPartial
	}
	return p, data, nil
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
	return 1 + numbers*binary.MaxVarintLen64 + len(p.Bins)*(2+2*binary.MaxVarintLen64)
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
	p, rest, err := decodeHeader(data)
	if err != nil {
		return err
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
