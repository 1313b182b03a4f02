package ratelimit

import (
	"math"
	"strconv"
	"time"
)

// maxRetryAfter bounds what a refusal asks a client to wait, and keeps the
// arithmetic of tiny rates inside a time.Duration.
const maxRetryAfter = 365 * 24 * time.Hour

// rounding is what the arithmetic may be off: who waited as long as asked is
// served. The debt is kept, so that nothing is gained by it.
const rounding = 1e-9

// Bucket is one token bucket. It holds no rate: both limits are passed on every
// call. The zero Bucket is not useful; start with [NewBucket].
type Bucket struct {
	tokens float64 // as of last
	last   int64   // nanoseconds on the caller's time line
}

// NewBucket returns a full bucket at the time now, in nanoseconds on any time
// line of the caller, as long as it is the same for all calls.
func NewBucket(burst int, now int64) Bucket {
	return Bucket{tokens: float64(burst), last: now}
}

// Take takes one token if there is one. rate is in tokens per second, burst the
// capacity. When there is none it returns how long until there will be.
//
// A refusal changes nothing, so that a caller who asks a million times a second
// cannot starve a slow bucket by rounding its refill away. A clock that steps
// back loses nothing and earns nothing; one that steps forward earns at most a
// full bucket. A rate that is not a positive number never refills, a burst below
// one never allows.
func (b *Bucket) Take(rate float64, burst int, now int64) (ok bool, retryAfter time.Duration) {
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

// level is how many tokens there are at the time now.
func (b *Bucket) level(rate float64, burst int, now int64) float64 {
	tokens := b.tokens
	// The subtraction wraps when the times are centuries apart; as an unsigned
	// number it is right again, because now is not before last.
	if now > b.last && rate > 0 {
		tokens += float64(uint64(now)-uint64(b.last)) / float64(time.Second) * rate
	}
	return min(tokens, float64(burst))
}

// fullAt is the time from which on the bucket is full, so that forgetting it
// changes nothing.
func (b *Bucket) fullAt(rate float64, burst int) int64 {
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

// wait is the time that rate needs for the given number of tokens, rounded up to
// the nanosecond and bounded by maxRetryAfter.
func wait(tokens, rate float64) time.Duration {
	ns := math.Ceil(tokens / rate * float64(time.Second))
	if !(ns >= 0 && ns < float64(maxRetryAfter)) { // NaN and infinity too
		return maxRetryAfter
	}
	return time.Duration(ns)
}

// RetryAfter returns the value of a Retry-After header for d: whole seconds,
// rounded up, at least 1.
func RetryAfter(d time.Duration) string {
	s := d / time.Second
	if d%time.Second > 0 {
		s++
	}
	return strconv.FormatInt(max(int64(s), 1), 10)
}
