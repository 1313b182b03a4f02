package memory

import (
	"sync"
	"testing"
	"time"

	"svc/store"
	"svc/store/storetest"
)

// clock moves on a little with every reading.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 4, 5, 6, 7, 890_123_456, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Microsecond)
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

const maxAuto = 5

// faults is a switch for Options.Fault.
type faults struct {
	mu    sync.Mutex
	fault func() error
}

func (f *faults) set(fault func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *faults) ask() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault == nil {
		return nil
	}
	return f.fault()
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opened {
		c, f := newClock(), &faults{}
		s := Open(Options{Now: c.Now, MaxAutoAgents: maxAuto, Fault: f.ask})
		return storetest.Opened{Records: s, Traces: s, Clock: c, MaxAutoAgents: maxAuto, Fail: f.set,
			Another: func(testing.TB) (store.Records, store.Traces) { h := s.Another(); return h, h }}
	})
}

// TestTwoEngines: records and traces that are two stores keep every promise that one
// engine does.
func TestTwoEngines(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opened {
		c, f := newClock(), &faults{}
		records := Open(Options{Now: c.Now, MaxAutoAgents: maxAuto, Fault: f.ask})
		traces := Open(Options{Now: c.Now, Fault: f.ask, Agents: func(tenant string) store.AgentDirectory { return records.Tenant(tenant) }})
		return storetest.Opened{Records: records, Traces: traces, Clock: c, MaxAutoAgents: maxAuto, Fail: f.set,
			Another: func(testing.TB) (store.Records, store.Traces) { return records.Another(), traces.Another() }}
	})
}
