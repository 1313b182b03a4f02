//go:build unix

package clickhouse

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"svc/store"
	"svc/store/bolt"
	"svc/store/clickhouse/clickhousetest"
	"svc/store/memory"
	"svc/store/postgres"
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

// fewChecks lets tests of random calls make few, unless told how many with -rapid.checks:
// each call is several statements of a real engine.
func fewChecks(t *testing.T) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", "5"); err != nil {
			t.Fatal(err)
		}
	}
}

// recordsVariable names the store of the records beside which TestConformance runs: memory,
// which is the default and the only one whose writes fail when asked to, bolt or postgres.
const recordsVariable = "SVC_TEST_RECORDS"

// TestConformance: traces on a real engine keep every promise, beside records in
// another store.
func TestConformance(t *testing.T) {
	fewChecks(t)
	server := clickhousetest.Start(t)
	database := sync.OnceValue(func() string { return postgrestest.Start(t).Database(t) })
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		c, f := newClock(), &faults{}
		url := server.Database(t)
		traces := func(t testing.TB, r store.Records) store.Traces {
			return open(t, url, r, Options{Now: c.Now, fault: f.ask, MergeEvery: -1, Timeout: 2 * time.Minute})
		}
		o := storetest.Opened{Clock: c, MaxAutoAgents: maxAuto}
		switch kind := os.Getenv(recordsVariable); kind {
		case "bolt":
			records, err := bolt.Open(filepath.Join(t.TempDir(), "svc.db"), bolt.Options{Now: c.Now, MaxAutoAgents: maxAuto, NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = records.Close() })
			o.Records = records
		case "postgres":
			where := postgrestest.Schema(t, database())
			opened := func(t testing.TB) store.Records {
				records, err := postgres.Open(context.Background(), where, postgres.Options{Now: c.Now, MaxAutoAgents: maxAuto})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = records.Close() })
				return records
			}
			o.Records = opened(t)
			o.Another = func(t testing.TB) (store.Records, store.Traces) {
				r := opened(t)
				return r, traces(t, r)
			}
		case "", "memory":
			records := memory.Open(memory.Options{Now: c.Now, MaxAutoAgents: maxAuto, Fault: f.ask})
			o.Records, o.Fail = records, f.set
			o.Another = func(t testing.TB) (store.Records, store.Traces) {
				r := records.Another()
				return r, traces(t, r)
			}
		default:
			t.Fatalf("%s=%s: want memory, bolt or postgres", recordsVariable, kind)
		}
		o.Traces = traces(t, o.Records)
		return o
	})
}
