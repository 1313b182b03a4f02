package store

import (
	"fmt"
	"math"
)

// NanoUSD is an amount of money in billionths of a US dollar. Sums are exact.
type NanoUSD int64

// MaxUSD is the largest amount, in dollars, that DollarsToNano accepts.
const MaxUSD = 1e9

// USD returns the amount in dollars, as the API encodes it.
func (n NanoUSD) USD() float64 { return float64(n) / 1e9 }

// DollarsToNano rounds an amount in dollars to the nearest nano-dollar. ok is
// false when it is not a number, negative, or above MaxUSD.
func DollarsToNano(usd float64) (n NanoUSD, ok bool) {
	if math.IsNaN(usd) || usd < 0 || usd > MaxUSD {
		return 0, false
	}
	return NanoUSD(math.Round(usd * 1e9)), true
}

// String returns the amount in dollars with nine decimals.
func (n NanoUSD) String() string {
	sign := ""
	u := uint64(n)
	if n < 0 {
		sign, u = "-", -u
	}
	return fmt.Sprintf("%s$%d.%09d", sign, u/1e9, u%1e9)
}
