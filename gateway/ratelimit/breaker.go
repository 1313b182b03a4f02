package ratelimit

import (
	"sync/atomic"
	"time"
)

// shortCircuit is how long calls fail at once after a failure (gateway
// specification, rate_limit_store.fail_open).
const shortCircuit = time.Second

// breaker remembers the last failure of one server. Its times are on a monotonic
// time line of the caller. The zero breaker is closed.
type breaker struct {
	until   atomic.Int64 // calls fail at once before this time
	failing atomic.Bool  // failed last, so that recovery can be told
}

// open reports whether calls fail at once at the time now.
func (b *breaker) open(now time.Duration) bool { return int64(now) < b.until.Load() }

// trip opens the breaker for the short circuit. It reports whether the server
// had been answering until now.
func (b *breaker) trip(now time.Duration) (first bool) {
	b.until.Store(int64(now + shortCircuit))
	return b.failing.CompareAndSwap(false, true)
}

// lately is how long a failure tells of the present where nobody calls.
const lately = time.Minute

// failed reports whether the server failed a short while ago and has not answered
// since.
func (b *breaker) failed(now time.Duration) bool {
	return b.failing.Load() && int64(now) < b.until.Load()+int64(lately)
}

// answered reports whether this is the first answer after a failure.
func (b *breaker) answered() (first bool) {
	return b.failing.Load() && b.failing.CompareAndSwap(true, false)
}
