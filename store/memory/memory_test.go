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

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opened {
		c := newClock()
		s := Open(Options{Now: c.Now, MaxAutoAgents: maxAuto})
		return storetest.Opened{Records: s, Traces: s, Clock: c, MaxAutoAgents: maxAuto}
	})
}

// TestTwoEngines: records and traces that are two stores keep every promise that one
// engine does.
func TestTwoEngines(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Opened {
		c := newClock()
		records := Open(Options{Now: c.Now, MaxAutoAgents: maxAuto})
		traces := Open(Options{Now: c.Now, Agents: func(tenant string) store.AgentDirectory { return records.Tenant(tenant) }})
		return storetest.Opened{Records: records, Traces: traces, Clock: c, MaxAutoAgents: maxAuto}
	})
}
