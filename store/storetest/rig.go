package storetest

import (
	"sync"
	"time"
)

// Ticking is a clock that advances a little with every call, so that two events never have
// the same time. It is safe for concurrent use.
type Ticking struct {
	mu   sync.Mutex
	now  time.Time
	step time.Duration
}

// NewClock returns a clock that advances by a microsecond with every call.
func NewClock() *Ticking {
	return NewClockAt(time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC), time.Microsecond)
}

// NewClockAt returns a clock that starts at a time and advances by step with every call.
func NewClockAt(start time.Time, step time.Duration) *Ticking {
	return &Ticking{now: start, step: step}
}

// Now returns the time and advances the clock.
func (c *Ticking) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(c.step)
	return c.now
}

// Advance advances the clock by d.
func (c *Ticking) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// MaxAutoAgents is the bound that stores under test are opened with.
const MaxAutoAgents = 5

// Faults holds the function that [Opened.Fail] sets and that the commits of a store call.
// The zero value lets every commit succeed; it is safe for concurrent use.
type Faults struct {
	mu    sync.Mutex
	fault func() error
}

// Set makes commits call fault; nil ends that.
func (f *Faults) Set(fault func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// Ask returns the error that a commit fails with, nil for none.
func (f *Faults) Ask() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault == nil {
		return nil
	}
	return f.fault()
}
