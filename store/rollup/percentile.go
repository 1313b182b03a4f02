package rollup

import (
	"math"
	"time"
)

// Quantile returns the nearest-rank quantile over the durations added with their
// sketch: the value of the smallest bin such that at least ceil(q·n) of the n
// durations are in it or below. Its relative error is at most 1/128, and
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
