package audit

import (
	"math/bits"
	"time"
)

// Durations is a histogram of durations with buckets that are an eighth of a power of two wide,
// so that a quantile is off by at most a sixteenth. The zero value is empty.
type Durations struct {
	buckets []uint32 // grown to the bucket of the longest duration
	n       uint64
	max     time.Duration
}

// subBits is the base-two logarithm of the number of buckets in each power of two.
const subBits = 3

// bucketOf returns the bucket of a duration, in microseconds.
func bucketOf(d time.Duration) int {
	v := uint64(max(d, 0) / time.Microsecond)
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return (shift+1)<<subBits + int(v>>shift) - 1<<subBits
}

// middle returns the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < 1<<subBits {
		return time.Duration(bucket) * time.Microsecond
	}
	shift := bucket>>subBits - 1
	low := uint64(bucket&(1<<subBits-1)+1<<subBits) << shift
	return time.Duration(low+uint64(1)<<shift/2) * time.Microsecond
}

// Add counts a duration.
func (h *Durations) Add(d time.Duration) {
	b := bucketOf(d)
	if b >= len(h.buckets) {
		h.buckets = append(h.buckets, make([]uint32, b+1-len(h.buckets))...)
	}
	h.buckets[b]++
	h.n++
	h.max = max(h.max, d)
}

// Max returns the longest duration.
func (h *Durations) Max() time.Duration { return h.max }

// Quantile returns the q-quantile, for q from 0 to 1; 0 when there are no durations.
func (h *Durations) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := min(uint64(q*float64(h.n)), h.n-1)
	var seen uint64
	for b, count := range h.buckets {
		if seen += uint64(count); seen > rank {
			return min(middle(b), h.max)
		}
	}
	return h.max
}
