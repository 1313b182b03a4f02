//go:build unix

package clickhouse

import (
	"context"
	"sync"
	"testing"
	"time"

	"svc/store"
	"svc/store/clickhouse/clickhousetest"
	"svc/store/memory"
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

// faults is a switch for Options.fault.
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

// open opens a store whose agents another store knows.
func open(t testing.TB, url string, records store.Records, opts Options) *Store {
	t.Helper()
	opts.Agents = func(tenant string) store.AgentDirectory { return records.Tenant(tenant) }
	s, err := Open(context.Background(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestConformance: traces on a real engine keep every promise, beside records in memory.
func TestConformance(t *testing.T) {
	server := clickhousetest.Start(t)
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		c, f := newClock(), &faults{}
		url := server.Database(t)
		records := memory.Open(memory.Options{Now: c.Now, MaxAutoAgents: maxAuto, Fault: f.ask})
		opened := func(t testing.TB, r *memory.Store) *Store {
			return open(t, url, r, Options{Now: c.Now, fault: f.ask, MergeEvery: -1, Timeout: 2 * time.Minute})
		}
		return storetest.Opened{Records: records, Traces: opened(t, records), Clock: c, MaxAutoAgents: maxAuto, Fail: f.set,
			Another: func(t testing.TB) (store.Records, store.Traces) {
				r := records.Another()
				return r, opened(t, r)
			}}
	})
}
