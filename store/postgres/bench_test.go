//go:build unix

package postgres

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
	"svc/store/postgres/postgrestest"
	"svc/store/storetest"
)

// The benchmarks ingest batches of a thousand traces each, on an engine with its default
// durability:
//
//	go test ./store/postgres -run '^$' -bench . -benchtime 200x
//
// SVC_BENCH_TRACES is the number of traces of the tenant that is queried (default: a
// million); other tenants have a twentieth each. SVC_BENCH_URL names an empty database of a
// running server: the first run fills it, later runs measure it without changes.

const (
	benchWriters = 4
	benchAgents  = 50
	benchDays    = 30
)

// benchBatch returns a batch of the current time, or of the days before it.
func benchBatch(batch int, at time.Time) store.Batch {
	b := store.Batch{Traces: make([]store.Trace, store.MaxIngestBatch)}
	for i := range b.Traces {
		n := batch*store.MaxIngestBatch + i
		tr := &b.Traces[i]
		*tr = store.Trace{ID: fmt.Sprintf("018f3c5e-7b1a-7c3d-9e2f-%012x", n), AgentName: fmt.Sprint("agent ", n*7%benchAgents), Status: store.TraceSuccess,
			Environment: []string{"production", "staging"}[n%10/9], SessionID: fmt.Sprintf("session-%08d", n/20), ModelProvider: "anthropic", ModelName: "claude",
			ToolName: "search_orders", InputTokens: 1200, OutputTokens: 340, Cost: store.NanoUSD(1_000_000 + n%1000), Duration: time.Duration(n%5000) * time.Millisecond,
			CreatedAt: at.Add(time.Duration(i) * time.Millisecond)}
		if n%20 == 0 {
			tr.Status = store.TraceError
		}
	}
	return b
}

// BenchmarkIngest compares batches through the store with the same work in plain SQL: COPY
// of the same rows into the same partitions and indexes, the same ids, one commit per
// batch. ratio is the rate of the store divided by the rate of plain SQL, measured in
// turns.
func BenchmarkIngest(b *testing.B) {
	ctx := context.Background()
	url := postgrestest.Start(b, "fsync=on", "shared_buffers=256MB", "max_wal_size=4GB").Database(b)
	s, err := Open(ctx, url, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, id := range []string{"store", "hand"} {
		if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: id, Name: id}); err != nil {
			b.Fatal(err)
		}
	}
	tn := s.TracesOf("store")
	if _, err := tn.Ingest(ctx, benchBatch(0, time.Now())); err != nil { // agents are registered
		b.Fatal(err)
	}
	var spent [3]time.Duration
	next := [3]int{1, 1, 1}
	const turn = 40
	for done := 0; done < b.N; done += turn {
		for kind, do := range []func(i int) error{
			func(i int) error { _, err := tn.Ingest(ctx, benchBatch(i, time.Now())); return err },
			func(i int) error { return byHand(ctx, s, benchBatch(i, time.Now()), true) },
			func(i int) error { return byHand(ctx, s, benchBatch(1_000_000+i, time.Now()), false) },
		} {
			began := time.Now()
			var at atomic.Int64
			at.Store(int64(next[kind]))
			last := int64(next[kind] + turn)
			var wg sync.WaitGroup
			for range benchWriters {
				wg.Go(func() {
					for i := at.Add(1) - 1; i < last; i = at.Add(1) - 1 {
						if err := do(int(i)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			spent[kind] += time.Since(began)
			next[kind] = int(last)
		}
	}
	traces := float64((next[0] - 1) * store.MaxIngestBatch)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(traces/spent[0].Seconds(), "traces/s")
	b.ReportMetric(traces/spent[1].Seconds(), "byhand/s")
	b.ReportMetric(traces/spent[2].Seconds(), "copy/s")
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
	b.ReportMetric(float64(spent[2])/float64(spent[0]), "ratio-to-copy")
}

// byHand copies a batch, with its ids if requested, in one transaction.
func byHand(ctx context.Context, s *Store, batch store.Batch, ids bool) error {
	var tenant int32 = 2
	rows := append([]byte{}, copyHeader...)
	var keys [][]byte
	var created, seqs []int64
	for i := range batch.Traces {
		tr := &batch.Traces[i]
		tr.AgentID = "agt_01m84gs5m7005a6s8m8yery6zr"
		n, err := strconv.ParseInt(tr.ID[len(tr.ID)-12:], 16, 64)
		if err != nil {
			return err
		}
		if rows, err = appendRow(rows, tenant, n, tr); err != nil {
			return err
		}
		keys, created, seqs = append(keys, []byte(tr.ID)), append(created, tr.CreatedAt.UnixNano()), append(seqs, n)
	}
	rows = append(rows, copyTrailer...)
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if ids {
			_, err := tx.Exec(ctx, `INSERT INTO trace_ids (tenant, id, created, seq) SELECT $1, * FROM unnest($2::bytea[], $3::bigint[], $4::bigint[]) ON CONFLICT DO NOTHING`, tenant, keys, created, seqs)
			if err != nil {
				return err
			}
		}
		_, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(rows), copied)
		return err
	})
}

// BenchmarkQuestions measures pages and statistics of a database of many traces.
func BenchmarkQuestions(b *testing.B) {
	ctx := context.Background()
	traces := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("SVC_BENCH_TRACES")); err == nil {
		traces = n
	}
	url := os.Getenv("SVC_BENCH_URL")
	if url == "" {
		url = postgrestest.Start(b, "shared_buffers=256MB", "max_wal_size=4GB").Database(b)
	}
	s, err := Open(ctx, url, Options{Timeout: 5 * time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	fill(b, s, traces)
	tn := s.TracesOf("t")
	latest, _, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1})
	if err != nil || len(latest) == 0 {
		b.Fatal(len(latest), err)
	}
	now := latest[0].CreatedAt // duration of the fill
	agents, _, err := s.Tenant("t").ListAgents(ctx, store.AgentFilter{}, store.Page{Limit: 1})
	if err != nil {
		b.Fatal(err)
	}
	page := store.Page{Limit: 50}
	cost := store.NanoUSD(1_000_999)
	list := func(f store.TraceFilter, p store.Page) func() error {
		return func() error { _, _, err := tn.ListTraces(ctx, f, p); return err }
	}
	stats := func(days int, by store.GroupBy) func() error {
		return func() error {
			_, err := tn.Stats(ctx, store.StatsQuery{From: now.AddDate(0, 0, -days), To: now, GroupBy: by})
			return err
		}
	}
	for _, q := range []struct {
		name string
		ask  func() error
	}{
		{"page", list(store.TraceFilter{}, page)},
		{"page by agent", list(store.TraceFilter{AgentID: agents[0].ID}, page)},
		{"page by status", list(store.TraceFilter{Status: store.TraceError}, page)},
		{"page by environment", list(store.TraceFilter{Environment: "staging"}, page)},
		{"page by agent of a week", list(store.TraceFilter{AgentID: agents[0].ID, Start: now.AddDate(0, 0, -9), End: now.AddDate(0, 0, -2)}, page)},
		{"page by session", list(store.TraceFilter{SessionID: fmt.Sprintf("session-%08d", traces/40)}, page)},
		{"page by rare cost", list(store.TraceFilter{MinCost: &cost}, page)},
		{"page by rare cost of a day", list(store.TraceFilter{MinCost: &cost, Start: now.AddDate(0, 0, -1)}, page)},
		{"page behind 10,000", list(store.TraceFilter{}, store.Page{Limit: 50, Offset: 10_000})},
		{"page behind 100,000", list(store.TraceFilter{}, store.Page{Limit: 50, Offset: 100_000})},
		{"page behind half", list(store.TraceFilter{}, store.Page{Limit: 50, Offset: traces / 2})},
		{"page after half", list(store.TraceFilter{}, store.Page{Limit: 50, After: store.Place{ID: benchID(traces / 2), At: now.AddDate(0, 0, -benchDays/2)}})},
		{"trace by id", func() error { _, err := tn.GetTrace(ctx, benchID(traces/2)); return err }},
		{"statistics of 24 hours", stats(1, store.GroupNone)},
		{"statistics of 30 days", stats(30, store.GroupNone)},
		{"statistics of 30 days by agent", stats(30, store.GroupByAgent)},
		{"statistics of 30 days by environment", stats(30, store.GroupByEnvironment)},
	} {
		b.Run(strings.ReplaceAll(q.name, " ", "_"), func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := q.ask(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[(len(took)-1)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// benchID returns the id of a trace of a batch.
func benchID(n int) string { return fmt.Sprintf("018f3c5e-7b1a-7c3d-9e2f-%012x", n) }

// fill stores traces of the last days, unless the database has them already.
func fill(b *testing.B, s *Store, traces int) {
	b.Helper()
	ctx := context.Background()
	began := time.Now()
	for name, n := range map[string]int{"other a": traces / 20, "other b": traces / 20, "other c": traces / 20, "t": traces} {
		if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: name, Name: name}); store.KindOf(err) == store.Conflict {
			continue
		} else if err != nil {
			b.Fatal(err)
		}
		tn, batches := s.TracesOf(name), n/store.MaxIngestBatch
		var at atomic.Int64
		var wg sync.WaitGroup
		for range benchWriters {
			wg.Go(func() {
				for i := at.Add(1) - 1; i < int64(batches); i = at.Add(1) - 1 {
					back := time.Duration(int64(batches)-i) * (benchDays * 24 * time.Hour / time.Duration(batches))
					if _, err := tn.Ingest(ctx, benchBatch(int(i), began.Add(-back))); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	if time.Since(began) < 5*time.Second && os.Getenv("SVC_BENCH_URL") != "" {
		return // everything was stored already
	}
	for _, number := range []int32{1, 2, 3, 4} {
		for more := true; more; {
			var err error
			if more, err = s.merge(ctx, number); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Logf("%d traces of %d days stored in %v", traces, benchDays, time.Since(began).Round(time.Second))
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range []string{`SET statement_timeout = 0`, `VACUUM ANALYZE`, `RESET statement_timeout`} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAuditEvents lists pages of a tenant with many events:
//
//	go test ./store/postgres -run '^$' -bench AuditEvents -benchtime 3x
func BenchmarkAuditEvents(b *testing.B) {
	s := open(b, postgrestest.Start(b, "shared_buffers=256MB", "max_wal_size=4GB").Database(b), Options{})
	if _, _, err := s.CreateTenant(b.Context(), store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		b.Fatal(err)
	}
	storetest.BenchAuditEvents(b, engine{s}, "t", 1_000_000)
}
