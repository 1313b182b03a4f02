package bolt

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"svc/store"
	"svc/store/record"
)

var ctx = context.Background()

// TestSharedCommits ingests single traces from many callers: they share commits,
// and the committer does not wait for more batches.
func TestSharedCommits(t *testing.T) {
	s, tn := benchStore(t)
	mustIngest(t, tn, []store.Trace{{AgentName: "a", Status: store.TraceSuccess}})
	before := pageWrites(s)
	began := time.Now()
	mustIngest(t, tn, []store.Trace{{AgentName: "a", Status: store.TraceSuccess}})
	alone, writes := time.Since(began), pageWrites(s)-before

	const callers, each = 64, 20
	before = pageWrites(s)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				mustIngest(t, tn, []store.Trace{{AgentName: "a", Status: store.TraceSuccess}})
			}
		})
	}
	wg.Wait()
	shared := pageWrites(s) - before
	t.Logf("one alone: %d page writes, %v; %d: %d page writes, %.1f each", writes, alone, callers*each, shared, float64(shared)/(callers*each))
	if shared > writes*callers*each/4 {
		t.Errorf("%d page writes for %d posts: they do not share commits (%d for one)", shared, callers*each, writes)
	}
	if _, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1}); total != callers*each+2 || err != nil {
		t.Errorf("%d traces, %v", total, err)
	}
}

// TestLeavingCaller cancels the context of calls at any time: a batch whose call
// returned an error is not stored.
func TestLeavingCaller(t *testing.T) {
	_, tn := benchStore(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	left, stored := 0, 0
	for i := range 400 {
		wg.Go(func() {
			short, cancel := context.WithTimeout(ctx, time.Duration(i)*20*time.Microsecond)
			defer cancel()
			id := fmt.Sprint(i)
			_, err := tn.Ingest(short, store.Batch{Traces: []store.Trace{{ID: id, AgentName: "a", Status: store.TraceSuccess}}})
			_, getErr := tn.GetTrace(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			if (err == nil) != (getErr == nil) {
				t.Errorf("ingest says %v, reading %v", err, getErr)
			}
			if err != nil {
				left++
			} else {
				stored++
			}
		})
	}
	wg.Wait()
	t.Logf("%d left, %d stayed", left, stored)
}

// TestCloseDuringIngest closes a store during ingest: each batch is stored or
// rejected.
func TestCloseDuringIngest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	acked := 0
	started := make(chan struct{}, 1)
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				_, err := s.TracesOf("t").Ingest(ctx, store.Batch{Traces: []store.Trace{{ID: fmt.Sprint(c, i), AgentName: "a", Status: store.TraceSuccess}}})
				if err == store.ErrClosed {
					return
				}
				if err != nil {
					t.Errorf("ingest: %v", err)
					return
				}
				mu.Lock()
				acked++
				mu.Unlock()
				select {
				case started <- struct{}{}:
				default:
				}
			}
		})
	}
	<-started
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	again, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, total, err := again.TracesOf("t").ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1}); total != acked || err != nil {
		t.Errorf("%d stored of %d acknowledged, %v", total, acked, err)
	}
}

// TestKeyUsesAreWritten checks that times of use survive a restart, without a
// write per use.
func TestKeyUsesAreWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "svc.db")
	s, err := Open(path, Options{FlushEvery: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t", Key: &store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Digest: store.DigestKey("x")}})
	if err != nil {
		t.Fatal(err)
	}
	before := pageWrites(s)
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for i := range 10_000 {
		s.Tenant("t").RecordKeyUse(key.ID, at.Add(time.Duration(i)))
	}
	if writes := pageWrites(s) - before; writes > 1000 {
		t.Errorf("%d page writes for 10000 uses", writes)
	}
	deadline := time.Now().Add(20 * time.Second)
	for written := uint64(0); written != uint64(at.Add(9999).UnixNano()); {
		if err := s.tenant("t").view(ctx, func(d data) error {
			written = number(d.in(record.KeyUsed).Get([]byte(key.ID)))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("uses were not written")
		}
		time.Sleep(5 * time.Millisecond)
	}
	last := at.Add(time.Hour)
	s.Tenant("t").RecordKeyUse(key.ID, last) // written by Close
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if k, err := again.Tenant("t").GetKey(ctx, key.ID); err != nil || !k.LastUsedAt.Equal(last) {
		t.Errorf("lastUsedAt %v, want %v, %v", k.LastUsedAt, last, err)
	}
}

// TestFailedCommit makes commits fail: the callers get the error, Ready reports
// it, and nothing is stored.
func TestFailedCommit(t *testing.T) {
	s, tn := benchStore(t)
	mustIngest(t, tn, []store.Trace{{ID: "1", AgentName: "a", Status: store.TraceSuccess}})
	s.db.MaxSize = 1 // the disk is full
	full := make([]store.Trace, 1000)
	for i := range full {
		full[i] = store.Trace{AgentName: "b", Status: store.TraceSuccess, SessionID: fmt.Sprintf("%01000d", i)}
	}
	var err error
	for range 50 { // until the free pages of the file are used up
		if _, err = tn.Ingest(ctx, store.Batch{Traces: full}); err != nil {
			break
		}
	}
	if err == nil || store.KindOf(err) != store.Internal {
		t.Fatalf("ingest into a full file: %v", err)
	}
	if s.Ready(ctx) == nil {
		t.Error("ready after a failed commit")
	}
	s.db.MaxSize = 0
	mustIngest(t, tn, []store.Trace{{ID: "2", AgentName: "a", Status: store.TraceSuccess}})
	if err := s.Ready(ctx); err != nil {
		t.Errorf("ready: %v", err)
	}
	checkRecount(t, s, "t")
}

// pageWrites returns the number of pages written so far.
func pageWrites(s *Store) int64 {
	st := s.db.Stats()
	return st.TxStats.GetWrite()
}
