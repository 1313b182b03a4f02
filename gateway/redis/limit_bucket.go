package redis

import (
	"math"
	"time"
)

// maxRetryAfter bounds the wait that a refusal reports, and keeps the arithmetic of tiny
// rates within the range of time.Duration.
const maxRetryAfter = 365 * 24 * time.Hour

// rounding is the tolerance of the arithmetic: a caller that waited for the reported time
// is allowed. The deficit stays in the bucket, so that a caller cannot gain tokens by it.
const rounding = 1e-9

// bucket is one token bucket. It contains neither rate nor burst: both are passed on
// every call. The zero value is not usable; use newBucket.
type bucket struct {
	tokens float64 // at the time last
	last   int64   // nanoseconds on the caller's clock
}

// newBucket returns a full bucket at the time now, in nanoseconds on a clock of the
// caller, which must be the same for all calls.
func newBucket(burst int, now int64) bucket {
	return bucket{tokens: float64(burst), last: now}
}

// Take takes one token if there is one. rate is in tokens per second, burst is the
// capacity. Without a token Take returns the time until there is one.
//
// A refusal does not change the bucket, so that rounding cannot keep a slow bucket empty,
// however often it is called. If the clock steps back, no tokens are lost or gained; if
// it steps forward, at most a full bucket is gained. A rate that is not a positive number
// never refills, a burst below one never allows.
func (b *bucket) Take(rate float64, burst int, now int64) (ok bool, retryAfter time.Duration) {
	if burst < 1 {
		return false, maxRetryAfter
	}
	if now < b.last {
		b.last = now
	}
	tokens := b.level(rate, burst, now)
	if tokens < 1-rounding {
		return false, wait(1-tokens, rate)
	}
	b.tokens, b.last = tokens-1, now
	return true, 0
}

// level returns the number of tokens at the time now.
func (b *bucket) level(rate float64, burst int, now int64) float64 {
	tokens := b.tokens
	// The subtraction overflows when the times are centuries apart; as an unsigned number
	// the result is correct, because now is not before last.
	if now > b.last && rate > 0 {
		tokens += float64(uint64(now)-uint64(b.last)) / float64(time.Second) * rate
	}
	return min(tokens, float64(burst))
}

// fullAt returns the time from which on the bucket is full, so that removing it changes
// nothing.
func (b *bucket) fullAt(rate float64, burst int) int64 {
	missing := float64(burst) - b.tokens
	if missing <= 0 {
		return b.last
	}
	d := int64(wait(missing, rate))
	if b.last > math.MaxInt64-d {
		return math.MaxInt64
	}
	return b.last + d
}

// wait returns the time in which rate yields the given number of tokens, rounded up to
// the nanosecond and bounded by maxRetryAfter.
func wait(tokens, rate float64) time.Duration {
	ns := math.Ceil(tokens / rate * float64(time.Second))
	if !(ns >= 0 && ns < float64(maxRetryAfter)) { // also false for NaN and infinity
		return maxRetryAfter
	}
	return time.Duration(ns)
}
