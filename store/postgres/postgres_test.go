//go:build unix

package postgres

import (
	"context"
	"sync"
	"testing"
	"time"

	"svc/store"
	"svc/store/postgres/postgrestest"
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

// open opens a store, and closes it when its test ends.
func open(t testing.TB, url string, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	server := postgrestest.Start(t)
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		c, f, url := newClock(), &faults{}, server.Database(t)
		o := Options{Now: c.Now, MaxAutoAgents: maxAuto, FlushEvery: 50 * time.Millisecond, MergeEvery: 20 * time.Millisecond, mergeFrom: 1, fault: f.ask}
		s := open(t, url, o)
		return storetest.Opened{Records: s, Traces: s, Clock: c, MaxAutoAgents: maxAuto, Fail: f.set,
			Another: func(t testing.TB) (store.Records, store.Traces) { h := open(t, url, o); return h, h }}
	})
}
