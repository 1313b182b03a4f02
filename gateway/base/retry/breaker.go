package retry

import (
	"sync"
	"time"
)

// Breaker stops the calls to an endpoint after consecutive failures (gateway
// specification, States and transitions, Guardrail breaker). It is closed while until is
// zero, open before that time, and half-open from then on.
type Breaker struct {
	threshold int           // consecutive failures that open the breaker; 0 disables it
	window    time.Duration // duration of the open state

	mu       sync.Mutex
	failures int       // consecutive, while closed
	until    time.Time // end of the open window
	probing  bool      // the single call of the half-open state is in flight
	// version counts the transitions. The result of a call that began under an older
	// version is ignored, because it is no evidence about the present state.
	version uint64
}

// Outcome is the result of a call for the breaker.
type Outcome uint8

// The outcomes.
const (
	// Abandoned: the caller disconnected; the call is no evidence about the endpoint.
	Abandoned Outcome = iota
	Succeeded
	Failed
)

// New returns a closed breaker, which is safe for concurrent use.
func New(c Config) *Breaker { return &Breaker{threshold: c.FailureThreshold, window: c.OpenDuration} }

// Open reports whether calls are stopped, or tried one at a time.
func (b *Breaker) Open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.until.IsZero()
}

// Allow reports whether a call may be made, and returns the version for Report.
func (b *Breaker) Allow(now time.Time) (version uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return b.version, true
	}
	if b.probing || now.Before(b.until) {
		return 0, false
	}
	b.probing = true
	return b.version, true
}

// Report records the outcome of an allowed call. opened is set when the outcome opened
// the breaker.
func (b *Breaker) Report(version uint64, o Outcome, now time.Time) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.threshold == 0 || version != b.version {
		return false
	}
	halfOpen := !b.until.IsZero()
	b.probing = false
	switch o {
	case Abandoned: // after an abandoned probe, the next call is the probe
	case Succeeded:
		b.failures = 0
		if halfOpen {
			b.until = time.Time{}
			b.version++
		}
	case Failed:
		b.failures++
		if halfOpen || b.failures >= b.threshold {
			b.failures = 0
			b.until = now.Add(b.window)
			b.version++
			return true
		}
	}
	return false
}
