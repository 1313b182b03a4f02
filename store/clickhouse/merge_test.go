//go:build unix

package clickhouse

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/store"
	"svc/store/clickhouse/clickhousetest"
	"svc/store/storetest"
	"svc/store/storetest/memory"
)

// TestQuietTenantIsMerged: the statistics of a burst are merged although nothing is written
// afterwards: what was too new for a merge stays due, after an error too, and a process that
// starts merges what another one has left.
func TestQuietTenantIsMerged(t *testing.T) {
	records := memory.Open(memory.Options{})
	url := clickhousetest.Start(t).Database(t)
	const settle = time.Second
	writer := rig{open(t, url, records, Options{MergeEvery: -1, Timeout: time.Minute, settle: settle}), records, storetest.NewClock()}
	tn := writer.tenant(t, "quiet")
	left := func(s *Store) (n uint64) {
		t.Helper()
		g := must((&tenant{s, tn.id}).newestGeneration(ctx, s.shards[0]))(t)
		if err := s.shards[0].row(ctx, fmt.Sprintf("SELECT count() FROM feed WHERE tenant = %s AND %s", quote(tn.id), committedBehind(g.seq)), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	until := func(s *Store, step func()) {
		t.Helper()
		for began := time.Now(); left(s) > 0; step() {
			if time.Since(began) > time.Minute {
				t.Fatalf("%d traces are not merged", left(s))
			}
		}
	}
	must(tn.Ingest(ctx, writer.batch("first ", 100)))(t)
	now := time.Now()
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := writer.mergeTenant(canceled, tn.id); err == nil || writer.fresh[tn.id] == nil {
		t.Errorf("a merge that failed: %v, due: %v", err, writer.fresh)
	}
	until(writer.Store, func() {
		now = now.Add(mergeAfter)
		writer.mergeDue(now)
	})
	now = now.Add(mergeAfter)
	writer.mergeDue(now)
	if len(writer.fresh) != 0 {
		t.Errorf("%d tenants stay due although nothing is left", len(writer.fresh))
	}

	must(tn.Ingest(ctx, writer.batch("second ", 100)))(t)
	if left(writer.Store) == 0 {
		t.Fatal("the second burst is merged already")
	}
	starting := open(t, url, records, Options{MergeEvery: 10 * time.Millisecond, Timeout: time.Minute, settle: settle})
	until(starting, func() {
		starting.mu.Lock() // mergeAfter has passed
		for _, u := range starting.fresh {
			u.looked = time.Time{}
		}
		starting.mu.Unlock()
	})
}

// TestABurstIsMergedWithinAMinute: what a merge leaves as too new is older than the longest write and
// young enough that two looks for due merges follow within a minute.
func TestABurstIsMergedWithinAMinute(t *testing.T) {
	s := open(t, clickhousetest.Start(t).Database(t), memory.Open(memory.Options{}), Options{})
	if longest := 2*s.opts.Timeout + answerTime + 2*time.Second; s.opts.settle < longest {
		t.Errorf("commits count as settled after %s, and a write can take %s", s.opts.settle, longest)
	}
	if late := s.opts.settle + 2*s.opts.MergeEvery; late > time.Minute {
		t.Errorf("a burst is merged after %s", late)
	}
}

// TestMerge: statistics are the same before and after a merge, by any process and any number
// of times, and later traces are added.
func TestMerge(t *testing.T) {
	r := newRig(t, clickhousetest.Start(t).Database(t))
	tn := r.tenant(t, "t")
	sh := r.shards[0]
	var want []any
	for round, n := range []int{300, 7, 120} {
		must(tn.Ingest(ctx, r.batch(fmt.Sprint("round ", round, " "), n)))(t)
		want = r.answers(t, tn)
		settled := sh.clock() + int64(time.Second)
		if round == 2 { // two processes concurrently, from the same generation
			g := must(tn.newestGeneration(ctx, sh))(t)
			must(tn.merge(ctx, sh, settled))(t)
			if err := sh.exec(ctx, fmt.Sprintf("INSERT INTO generations SELECT tenant, seq, version - 1, days, versions FROM generations WHERE tenant = %s AND seq = %d", quote(tn.id), g.seq)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			must(tn.merge(ctx, sh, settled))(t)
			if diff := cmp.Diff(want, r.answers(t, tn)); diff != "" {
				t.Fatalf("round %d: merged statistics differ: %s", round, diff)
			}
		}
	}
	var rows uint64
	if err := sh.row(ctx, "SELECT count() FROM rollups", &rows); err != nil || rows == 0 {
		t.Errorf("%d merged rows, %v", rows, err)
	}
	// The feed is not needed for merged statistics.
	if err := sh.exec(ctx, fmt.Sprintf("ALTER TABLE feed DROP PARTITION %d", dayOf(sh.clock()))); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r.answers(t, tn)); diff != "" {
		t.Errorf("without the feed: %s", diff)
	}
}

// TestUncounted: totals that are lower bounds are marked as such, and do not end a loop over
// pages early.
func TestUncounted(t *testing.T) {
	r := newRig(t, clickhousetest.Start(t).Database(t))
	tn := r.tenant(t, "t")
	for i := range 11 {
		must(tn.Ingest(ctx, r.batch(fmt.Sprint(i, " "), 1000)))(t)
	}
	for offset := 0; ; offset += 500 {
		list, total, atLeast, err := tn.ListUncounted(ctx, store.TraceFilter{}, store.Page{Limit: 501, Offset: offset})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) < 501 {
			if offset+len(list) != 11_000 || total != 11_000 || atLeast {
				t.Errorf("the last page ends at %d of %d, at least: %v", offset+len(list), total, atLeast)
			}
			break
		}
		if !atLeast || total < offset+501 {
			t.Fatalf("offset %d: %d rows, total %d, at least: %v", offset, len(list), total, atLeast)
		}
	}
	if _, total, atLeast, err := tn.ListUncounted(ctx, store.TraceFilter{Status: store.TraceError}, store.Page{Limit: 5}); err != nil || total != 2200 || atLeast {
		t.Errorf("of errors %d, at least: %v, %v", total, atLeast, err)
	}
}

// TestSkipParts: when one part of a wide window has most of the traces, the number of traces
// that a page reads in order to skip them is still bounded.
func TestSkipParts(t *testing.T) {
	r := newRig(t, clickhousetest.Start(t).Database(t))
	tn := r.tenant(t, "t")
	const n = 2 * skipBySorting
	newest := r.clock.Now()
	for begin := 0; begin < n; begin += 1000 {
		b := r.batch(fmt.Sprint(begin, " "), 1000)
		for i := range b.Traces {
			b.Traces[i].CreatedAt = newest.Add(-time.Duration(begin+i) * time.Millisecond)
		}
		must(tn.Ingest(ctx, b))(t)
	}
	window := func(low, high int64) string { return "tenant = " + quote(tn.id) + " AND " + createdBetween(low, high) }
	now := nanos(newest)
	left, low, high, found, err := tn.skipParts(ctx, r.shards[0], window, now-300*dayNanos, now, n-100)
	if err != nil || !found || left > skipBySorting {
		t.Fatalf("%d are left, %v, %v", left, found, err)
	}
	list := must(tn.newestPlaces(ctx, r.shards[0], window(low, high), left, 1))(t)
	if want := now - (n-100)*int64(time.Millisecond); len(list) != 1 || list[0].created != want {
		t.Errorf("%+v, want one of %d", list, want)
	}
}

// TestSweep: days that are hidden are dropped, and their statistics are kept.
func TestSweep(t *testing.T) {
	r := newRig(t, clickhousetest.Start(t).Database(t))
	tn := r.tenant(t, "t")
	sh := r.shards[0]
	must(tn.Ingest(ctx, r.batch("x", 200)))(t)
	must(tn.merge(ctx, sh, sh.clock()+int64(time.Second)))(t)
	want := r.answers(t, tn)
	day := func() (first uint16) {
		if err := sh.row(ctx, "SELECT min(day) FROM traces", &first); err != nil {
			t.Fatal(err)
		}
		return first
	}
	before := day()
	must(tn.Expire(ctx, store.ExpireBounds{Traces: timeOf(int64(before+2) * dayNanos)}))(t)
	if err := sh.dropHidden(ctx); err != nil {
		t.Fatal(err)
	}
	if got := day(); got != before+2 {
		t.Errorf("the first day is %d, was %d", got, before)
	}
	if diff := cmp.Diff(want, r.answers(t, tn)); diff != "" {
		t.Errorf("statistics changed: %s", diff)
	}
}
