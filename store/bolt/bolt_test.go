package bolt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"svc/store"
	"svc/store/record"
	"svc/store/storetest"
	"svc/store/storetest/memory"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	goleak.VerifyTestMain(m)
}

// clockStart is the start time of the clocks of these tests.
var clockStart = time.Date(2026, 3, 28, 22, 17, 31, 456_000_000, time.UTC)

// newClock returns a clock that advances by a millisecond with every call.
func newClock() *storetest.Ticking { return storetest.NewClockAt(clockStart, time.Millisecond) }

// openTemp opens an empty store that is closed when the test ends.
func openTemp(t testing.TB, opts Options) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "svc.db"), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		s, clock, fail := openFailing(t)
		return storetest.Opened{Records: s, Traces: s, Clock: clock, MaxAutoAgents: 5, Fail: fail}
	})
}

// TestRecordsOfTracesElsewhere: the records of a file work with traces in
// another store.
func TestRecordsOfTracesElsewhere(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		s, clock, fail := openFailing(t)
		traces := memory.Open(memory.Options{Now: clock.Now, Fault: s.fault,
			Agents: func(tenant string) store.AgentDirectory { return s.Tenant(tenant) }})
		return storetest.Opened{Records: s, Traces: traces, Clock: clock, MaxAutoAgents: 5, Fail: fail}
	})
}

// openFailing opens a store whose commits can be made to fail.
func openFailing(t *testing.T) (s *Store, clock *storetest.Ticking, fail func(func() error)) {
	clock = newClock()
	var fault atomic.Pointer[func() error]
	s = openTemp(t, Options{Now: clock.Now, MaxAutoAgents: 5, NoSync: true, fault: func() error {
		if f := fault.Load(); f != nil && *f != nil {
			return (*f)()
		}
		return nil
	}})
	return s, clock, func(f func() error) { fault.Store(&f) }
}

// TestAScanOfOtherRowsEnds: a scan that leaves out every row ends with its context.
func TestAScanOfOtherRowsEnds(t *testing.T) {
	s := openTemp(t, Options{Now: newClock().Now, NoSync: true})
	if _, _, err := s.CreateTenant(t.Context(), store.TenantCreate{ID: "one", Name: "one"}); err != nil {
		t.Fatal(err)
	}
	if err := (engine{s}).Update(t.Context(), "one", func(tx record.Tx) error {
		for i := range 2 * checkEvery {
			if err := tx.Put(record.AgentRows, fmt.Appendf(nil, "%05d", i), []byte("{}")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	err := (engine{s}).View(ended, "one", func(tx record.Tx) error {
		cancel()
		return tx.Scan(record.AgentRows, record.Range{Having: [][]byte{[]byte("absent")}}, func([]byte, []byte) (bool, error) { return true, nil })
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the scan went on: %v", err)
	}
}

func TestRows(t *testing.T) {
	s := openTemp(t, Options{Now: newClock().Now, NoSync: true})
	for _, id := range []string{"one", "two"} {
		if _, _, err := s.CreateTenant(t.Context(), store.TenantCreate{ID: id, Name: id}); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Rows(t, engine{s}, "one", "two")
}
