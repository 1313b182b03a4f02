package rollup

import (
	"math/bits"
	"slices"
	"time"
)

// The sketch is a histogram with fixed bins: up to 127 ns one bin per nanosecond, above
// that 64 bins per power of two. The width of a bin is at most 1/64 of its lower edge, and
// the bin's value is its middle, so a duration differs from the value of its bin by at
// most 1/128. Fixed bins are merged by adding counts, without loss and in any order. They
// need no logarithm, so results are the same on every machine.

const (
	subBits = 6
	subBins = 1 << subBits

	// NumBins is the number of bins for the whole range of time.Duration.
	NumBins = (63-subBits)*subBins + subBins
)

// Bin is a bin of the sketch with the number of durations in it.
type Bin struct {
	Index uint16
	Count uint64
}

// BinOf returns the bin of a duration; negative ones count as 0.
func BinOf(d time.Duration) uint16 {
	v := uint64(max(d, 0))
	if v < subBins {
		return uint16(v)
	}
	shift := bits.Len64(v) - subBits - 1 // v>>shift is in [64, 128)
	return uint16(shift*subBins) + uint16(v>>shift)
}

// binValue returns the duration that represents a bin.
func binValue(index uint16) time.Duration {
	low := binLow(index)
	return low + (binHigh(index)-low)/2
}

// binLow returns the smallest duration of a bin.
func binLow(index uint16) time.Duration {
	if index < 2*subBins {
		return time.Duration(index)
	}
	shift := binShift(index)
	return time.Duration(uint64(int(index)-shift*subBins) << shift)
}

// binHigh returns the largest duration of a bin.
func binHigh(index uint16) time.Duration {
	if index < 2*subBins {
		return time.Duration(index)
	}
	return binLow(index) + time.Duration(uint64(1)<<binShift(index)-1)
}

// binShift returns the base-2 logarithm of a bin's width, for bins above the first 128.
func binShift(index uint16) int { return int(index)/subBins - 1 }

// sumBins sorts bins and adds up the counts of equal indexes into a new slice.
func sumBins(bins []Bin) []Bin {
	slices.SortFunc(bins, func(a, b Bin) int { return int(a.Index) - int(b.Index) })
	distinct := 0
	for i := range bins {
		if i == 0 || bins[i].Index != bins[i-1].Index {
			distinct++
		}
	}
	out := make([]Bin, 0, distinct)
	for _, b := range bins {
		if n := len(out); n > 0 && out[n-1].Index == b.Index {
			out[n-1].Count += b.Count
			continue
		}
		out = append(out, b)
	}
	return out
}
