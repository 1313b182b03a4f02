package guardrail

import (
	"sync"
	"time"
)

// breaker stops the calls to an endpoint that keeps failing (gateway
// specification, States and transitions, Guardrail breaker). It is closed while
// until is zero, open before that time, and half-open from then on.
type breaker struct {
	threshold int           // consecutive failures that open it; 0 disables it
	window    time.Duration // how long it stays open

	mu       sync.Mutex
	failures int       // consecutive, while closed
	until    time.Time // end of the open window
	probing  bool      // the one call of the half-open state is under way
	// era counts the transitions. A call that began in an era that is over tells
	// nothing of the present state.
	era uint64
}

// outcome is what a call tells the breaker.
type outcome uint8

const (
	// abandoned: the caller left; it says nothing about the endpoint.
	abandoned outcome = iota
	succeeded
	failed
)

// admit asks for a call. The era is handed back to settle.
func (b *breaker) admit(now time.Time) (era uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return b.era, true
	}
	if b.probing || now.Before(b.until) {
		return 0, false
	}
	b.probing = true
	return b.era, true
}

// settle takes the outcome of an admitted call. opened reports that it opened
// the breaker.
func (b *breaker) settle(era uint64, o outcome, now time.Time) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.threshold == 0 || era != b.era {
		return false
	}
	halfOpen := !b.until.IsZero()
	b.probing = false
	switch o {
	case abandoned: // a probe that was given up leaves its place to the next
	case succeeded:
		b.failures = 0
		if halfOpen {
			b.until = time.Time{}
			b.era++
		}
	case failed:
		b.failures++
		if halfOpen || b.failures >= b.threshold {
			b.failures = 0
			b.until = now.Add(b.window)
			b.era++
			return true
		}
	}
	return false
}
