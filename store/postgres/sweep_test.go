//go:build unix

package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"svc/store"
	"svc/store/postgres/postgrestest"
	"svc/store/storetest"
)

// partitionsOf returns the days that have a partition.
func partitionsOf(t *testing.T, s *Store) (days []int64) {
	t.Helper()
	days, err := s.partitions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return days
}

// rowsIn counts the rows of a table, including hidden ones.
func rowsIn(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	if err := s.pool.QueryRow(context.Background(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRetentionDropsPartitions: the partition of a day is dropped when every tenant
// has removed its traces of the day; while another tenant keeps its traces, single
// rows are deleted.
func TestRetentionDropsPartitions(t *testing.T) {
	ctx, c := context.Background(), storetest.NewClock()
	s := open(t, postgrestest.Start(t).Database(t), Options{Now: c.Now})
	now := c.Now()
	cutoff := func(days int) store.ExpireBounds {
		return store.ExpireBounds{Traces: now.Truncate(24*time.Hour).AddDate(0, 0, -days), Budget: time.Minute}
	}
	for _, name := range []string{"short", "long"} {
		if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: name, Name: name}); err != nil {
			t.Fatal(err)
		}
		var batch []store.Trace
		for i := range 10 {
			for j := range 50 {
				batch = append(batch, store.Trace{ID: fmt.Sprint(i, "-", j), AgentName: "a", Status: store.TraceSuccess, CreatedAt: now.AddDate(0, 0, -i)})
			}
		}
		// A trace of a day that is too old for its own partition.
		batch = append(batch, store.Trace{ID: "oldest", AgentName: "a", Status: store.TraceSuccess, CreatedAt: now.AddDate(0, 0, -daysBack-5)})
		if res, err := s.TracesOf(name).Ingest(ctx, store.Batch{Traces: batch}); err != nil || res.Accepted != len(batch) {
			t.Fatal(res, err)
		}
	}
	all := partitionsOf(t, s)
	today := dayOf(now.UnixNano())
	if !slices.Contains(all, today-9) || slices.Contains(all, today-daysBack-5) || rowsIn(t, s, "traces_other") != 2 {
		t.Fatalf("partitions %v of day %d", all, today)
	}
	sweep := func() {
		t.Helper()
		if err := s.sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if res, err := s.TracesOf("short").Expire(ctx, cutoff(3)); err != nil || res.Traces != 6*50+1 || res.More {
		t.Fatalf("%+v, %v", res, err)
	}
	sweep()
	if got := partitionsOf(t, s); !slices.Equal(got, all) {
		t.Errorf("partitions %v, although another tenant has traces in them: %v", got, all)
	}
	if n := rowsIn(t, s, partitionOf(today-9)); n != 50 {
		t.Errorf("%d rows of the oldest day, want those of one tenant", n)
	}
	if res, err := s.TracesOf("long").Expire(ctx, cutoff(5)); err != nil || res.Traces != 4*50+1 {
		t.Fatalf("%+v, %v", res, err)
	}
	sweep()
	got := partitionsOf(t, s)
	if slices.Contains(got, today-6) || !slices.Contains(got, today-5) || rowsIn(t, s, "traces_other") != 0 {
		t.Errorf("partitions %v of day %d", got, today)
	}
	if n := rowsIn(t, s, "trace_ids"); n != 4*50+6*50 {
		t.Errorf("%d ids are left", n)
	}
	for name, want := range map[string]int{"short": 200, "long": 300} {
		if _, total, err := s.TracesOf(name).ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1}); err != nil || total != want {
			t.Errorf("%s: %d traces, %v", name, total, err)
		}
	}
	// A day whose partition was dropped accepts traces again.
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "late", Name: "late"}); err != nil {
		t.Fatal(err)
	}
	late := store.Trace{ID: "1", AgentName: "a", Status: store.TraceSuccess, CreatedAt: now.AddDate(0, 0, -9)}
	if res, err := s.TracesOf("late").Ingest(ctx, store.Batch{Traces: []store.Trace{late}}); err != nil || res.Accepted != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	// Commits are removed when all their traces are gone.
	if n := rowsIn(t, s, "trace_batches"); n != 3 {
		t.Errorf("%d commits", n)
	}
}

// TestTracesOfADayWithoutPartition: while a long query prevents the creation of a
// partition, traces of its day are stored nevertheless.
func TestTracesOfADayWithoutPartition(t *testing.T) {
	ctx, c := context.Background(), storetest.NewClock()
	s := open(t, postgrestest.Start(t).Database(t), Options{Now: c.Now})
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	reader, err := s.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(ctx, `SELECT count(*) FROM traces`); err != nil {
		t.Fatal(err)
	}
	trace := func(id string) store.Batch {
		return store.Batch{Traces: []store.Trace{{ID: id, AgentName: "a", Status: store.TraceSuccess, CreatedAt: c.Now().AddDate(0, 0, -50)}}}
	}
	if res, err := s.TracesOf("t").Ingest(ctx, trace("while it reads")); err != nil || res.Accepted != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if err := reader.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if res, err := s.TracesOf("t").Ingest(ctx, trace("after it")); err != nil || res.Accepted != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if _, total, err := s.TracesOf("t").ListTraces(ctx, store.TraceFilter{}, store.Page{}); err != nil || total != 2 || rowsIn(t, s, "traces_other") != 2 {
		t.Errorf("%d traces, %v", total, err)
	}
}
