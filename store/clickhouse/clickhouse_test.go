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
	"svc/store/postgres"
	"svc/store/postgres/postgrestest"
	"svc/store/storetest"
	"svc/store/storetest/memory"
)

// open opens a store whose agents are in another store.
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

// fewChecks reduces the number of random checks, unless -rapid.checks sets it: each check
// runs several statements on a real engine.
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

// recordsVariable is the environment variable with the store of the records for
// TestConformance: memory (the default, and the only one with fault injection), bolt or
// postgres.
const recordsVariable = "SVC_TEST_RECORDS"

// TestConformance: traces on a real engine, with records in another store, fulfil the
// contract of package store.
func TestConformance(t *testing.T) {
	fewChecks(t)
	server := clickhousetest.Start(t)
	database := sync.OnceValue(func() string { return postgrestest.Start(t).Database(t) })
	storetest.Run(t, func(t *testing.T) storetest.Opened {
		c, f := storetest.NewClock(), &storetest.Faults{}
		url := server.Database(t)
		traces := func(t testing.TB, r store.Records) store.Traces {
			return open(t, url, r, Options{Now: c.Now, fault: f.Ask, MergeEvery: -1, Timeout: 2 * time.Minute})
		}
		o := storetest.Opened{Clock: c, MaxAutoAgents: storetest.MaxAutoAgents}
		switch kind := os.Getenv(recordsVariable); kind {
		case "bolt":
			records, err := bolt.Open(filepath.Join(t.TempDir(), "svc.db"), bolt.Options{Now: c.Now, MaxAutoAgents: storetest.MaxAutoAgents, NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = records.Close() })
			o.Records = records
		case "postgres":
			where := postgrestest.Schema(t, database())
			opened := func(t testing.TB) store.Records {
				records, err := postgres.Open(context.Background(), where, postgres.Options{Now: c.Now, MaxAutoAgents: storetest.MaxAutoAgents})
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
			records := memory.Open(memory.Options{Now: c.Now, MaxAutoAgents: storetest.MaxAutoAgents, Fault: f.Ask})
			o.Records, o.Fail = records, f.Set
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
