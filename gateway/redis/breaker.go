package redis

import (
	"sync/atomic"
	"time"
)

// shortCircuit is the time after a failure during which calls fail at once (gateway
// specification, rate_limit_store.fail_open).
const shortCircuit = time.Second

// breaker stores the last failure of one server. Its times are nanoseconds on a
// monotonic clock of the caller. The zero breaker is closed.
type breaker struct {
	until   atomic.Int64 // calls fail at once before this time
	failing atomic.Bool  // the last call failed; used to log the recovery
}

// open reports whether calls fail at once at the time now.
func (b *breaker) open(now time.Duration) bool { return int64(now) < b.until.Load() }

// trip opens the breaker for the duration of the short circuit. It reports whether this
// is the first failure since the last successful call.
func (b *breaker) trip(now time.Duration) (first bool) {
	b.until.Store(int64(now + shortCircuit))
	return b.failing.CompareAndSwap(false, true)
}

// recentFailure is the time for which a failure is reported when no further calls are
// made.
const recentFailure = time.Minute

// failed reports whether the server failed recently and has not responded since.
func (b *breaker) failed(now time.Duration) bool {
	return b.failing.Load() && int64(now) < b.until.Load()+int64(recentFailure)
}

// answered reports whether this is the first response after a failure.
func (b *breaker) answered() (first bool) {
	return b.failing.Load() && b.failing.CompareAndSwap(true, false)
}
