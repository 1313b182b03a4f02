//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"svc/store"
	"svc/store/postgres/postgrestest"
)

// TestKilledEngine kills the engine while several processes write: every
// acknowledged trace is stored once, callers get ErrUnavailable, and a stream at
// another handle misses nothing.
func TestKilledEngine(t *testing.T) {
	server := postgrestest.Start(t, "fsync=on")
	url := server.Database(t)
	ctx := context.Background()
	handles := []*Store{open(t, url, Options{Timeout: 5 * time.Second}), open(t, url, Options{Timeout: 5 * time.Second})}
	if _, _, err := handles[0].CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	live, err := handles[1].TracesOf("t").StreamTraces(ctx, store.StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	const writers, each = 4, 60
	var stored atomic.Int64
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	enough, outage := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			tn := handles[w%2].TracesOf("t")
			for i := range each {
				id := fmt.Sprintf("%d-%d", w, i)
				batch := store.Batch{Traces: []store.Trace{{ID: id, AgentName: "a", Status: store.TraceSuccess, Cost: 1}}}
				for {
					_, err := tn.Ingest(ctx, batch)
					if err == nil {
						break
					}
					if !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("ingest while the engine is gone: %v", err)
						return
					}
					<-outage // the backoff of a reporter
				}
				mu.Lock()
				acknowledged[id] = true
				mu.Unlock()
				if stored.Add(1) == writers*each/3 {
					close(enough)
				}
			}
		})
	}
	<-enough
	server.Kill()
	if err := handles[0].Ready(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("ready without an engine: %v", err)
	}
	if _, _, err := handles[0].TracesOf("t").ListTraces(ctx, store.TraceFilter{}, store.Page{}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a list without an engine: %v", err)
	}
	server.StartAgain()
	close(outage)
	wg.Wait()

	late, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	seen := map[string]int{}
	for len(seen) < writers*each {
		events, err := live.Next(late)
		if err != nil {
			t.Fatalf("the stream ended after %d: %v", len(seen), err)
		}
		for _, e := range events {
			seen[e.Trace.ID]++
		}
	}
	for id := range acknowledged {
		if seen[id] != 1 {
			t.Errorf("trace %s was acknowledged, and seen %d times", id, seen[id])
		}
	}
	now := time.Now()
	s, err := handles[0].TracesOf("t").Stats(ctx, store.StatsQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour)})
	if err != nil || s.Summary.Traces != writers*each || s.Summary.Cost != writers*each {
		t.Errorf("%d traces are counted, %v", s.Summary.Traces, err)
	}
	if err := handles[0].Ready(ctx); err != nil {
		t.Errorf("ready after the engine is back: %v", err)
	}
}

// TestFrozenEngine stops the engine process without closing its connections: Ready
// reports it within its timeout.
func TestFrozenEngine(t *testing.T) {
	server := postgrestest.Start(t)
	s := open(t, server.Database(t), Options{Timeout: 2 * time.Second})
	pids := server.Processes()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	began := time.Now()
	err := s.Ready(context.Background())
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	if took := time.Since(began); !errors.Is(err, store.ErrUnavailable) || took > 10*time.Second {
		t.Errorf("ready of a frozen engine after %v: %v", took, err)
	}
	deadline, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for s.Ready(deadline) != nil {
		if deadline.Err() != nil {
			t.Fatal("not ready after the engine goes on")
		}
	}
}
