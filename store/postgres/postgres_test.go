//go:build unix

package postgres

import (
	"context"
	"testing"
	"time"

	"svc/store"
	"svc/store/postgres/postgrestest"
	"svc/store/storetest"
)

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
		c, f, url := storetest.NewClock(), &storetest.Faults{}, server.Database(t)
		o := Options{Now: c.Now, MaxAutoAgents: storetest.MaxAutoAgents, FlushEvery: 50 * time.Millisecond, MergeEvery: 20 * time.Millisecond, mergeFrom: 1, fault: f.Ask}
		s := open(t, url, o)
		return storetest.Opened{Records: s, Traces: s, Clock: c, MaxAutoAgents: storetest.MaxAutoAgents, Fail: f.Set,
			Another: func(t testing.TB) (store.Records, store.Traces) { h := open(t, url, o); return h, h }}
	})
}
