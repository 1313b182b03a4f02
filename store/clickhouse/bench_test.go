//go:build unix

package clickhouse

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/store"
	"svc/store/clickhouse/clickhousetest"
	"svc/store/storetest/memory"
)

// The benchmarks ingest batches of a thousand traces each:
//
//	go test ./store/clickhouse -run '^$' -bench Ingest -benchtime 200x
//	SVC_BENCH_TRACES=10000000 go test ./store/clickhouse -run '^$' -bench Queries -benchtime 100x
//
//	SVC_BENCH_TRACES=1000000 go test ./store/clickhouse -run '^$' -bench Burst -benchtime 1x
//
// SVC_BENCH_TRACES is the number of traces of the tenant that is queried (default: a
// million); other tenants have a twentieth each. SVC_BENCH_URL names an empty database of
// a running server: the first run fills it, later runs measure it without changes.

const (
	benchWriters = 4
	benchAgents  = 50
	benchDays    = 30
	benchTail    = 10 // the newest batches, which are not merged
)

func benchStore(b *testing.B) (*Store, *tenant) {
	b.Helper()
	records := memory.Open(memory.Options{})
	url := os.Getenv("SVC_BENCH_URL")
	if url == "" {
		url = clickhousetest.Start(b).Database(b)
	}
	s := open(b, url, records, Options{MergeEvery: -1, Timeout: 5 * time.Minute})
	if _, _, err := records.CreateTenant(context.Background(), store.TenantCreate{ID: "bench", Name: "bench", Key: &store.KeyCreate{Name: "k"}}); err != nil {
		b.Fatal(err)
	}
	return s, &tenant{s, "bench"}
}

// benchBatch returns a batch of the current time.
func benchBatch(batch int) store.Batch {
	at := time.Now()
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

// BenchmarkIngest compares batches through the store with batches of the client library,
// whose columns were built before, into the same table. ratio is the rate of the store
// divided by the rate of the client, measured in turns.
func BenchmarkIngest(b *testing.B) {
	ctx := context.Background()
	s, tn := benchStore(b)
	sh := s.shards[0]
	if _, err := tn.Ingest(ctx, benchBatch(0)); err != nil { // agents are registered
		b.Fatal(err)
	}
	var spent [2]time.Duration
	next := 1
	const turn = 40
	for done := 0; done < b.N; done += turn {
		batches := make([]store.Batch, turn)
		built := make([][]any, turn)
		for i := range turn {
			batches[i] = benchBatch(next + i)
			rows := &traceRows{}
			other := benchBatch(10_000_000 + next + i)
			for k := range other.Traces {
				if err := rows.add("client", sh.clock(), 7, 0, &other.Traces[k], ""); err != nil {
					b.Fatal(err)
				}
			}
			built[i] = rows.columns()
		}
		next += turn
		for kind, do := range []func(i int) error{
			func(i int) error { _, err := tn.Ingest(ctx, batches[i]); return err },
			func(i int) error { return sh.insert(ctx, traceTarget, built[i]) },
		} {
			began := time.Now()
			var at atomic.Int64
			var wg sync.WaitGroup
			for range benchWriters {
				wg.Go(func() {
					for i := at.Add(1) - 1; i < turn; i = at.Add(1) - 1 {
						if err := do(int(i)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			spent[kind] += time.Since(began)
		}
	}
	traces := float64((next - 1) * store.MaxIngestBatch)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(traces/spent[0].Seconds(), "traces/s")
	b.ReportMetric(traces/spent[1].Seconds(), "client/s")
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
}

// fill generates traces of the last days in the engine itself.
func fill(b *testing.B, sh *shard, tenant string, n int, now int64) {
	b.Helper()
	ctx := context.Background()
	const part = 500_000
	for from := 0; from < n; from += part {
		step := benchDays * dayNanos / int64(n)
		created := fmt.Sprintf("(%d + toInt64(number) * %d)", now-benchDays*dayNanos, step)
		seq := now - 2*int64(settle) - int64(n)
		sql := fmt.Sprintf(`INSERT INTO traces (day, committed, tenant, created, seq, writer, id, agent, agent_name, error, env, session, provider, model, tool, input, output, cost, duration, bin, call_tools, call_counts)
			SELECT toUInt16(intDiv(%s, %d)), %d, '%s', %s, toInt64(%d) + toInt64(number), 7, concat('018f3c5e-7b1a-7c3d-9e2e-', leftPad12, lower(hex(number))), concat('agt_', toString(number * 7 %% %d)), 'agent', if(number %% 20 = 0, 1, 0),
			if(number %% 10 = 9, 'staging', 'production'), concat('session-', toString(intDiv(number, 20))), 'anthropic', 'claude', 'search_orders', 1200, 340, toInt64(1000000 + number %% 1000),
			toInt64(number %% 5000) * 1000000, toUInt16(1280 + number %% 64), ['search_orders'], [toInt64(1)] FROM (SELECT number, substring('000000000000', 1, 12 - length(hex(number))) AS leftPad12 FROM system.numbers LIMIT %d, %d)`,
			created, dayNanos, dayOf(now), tenant, created, seq, benchAgents, from, min(part, n-from))
		if err := sh.exec(ctx, sql); err != nil {
			b.Fatal(err)
		}
	}
}

// fillAll generates the traces of all tenants, and merges their statistics.
func fillAll(b *testing.B, s *Store, tn *tenant, n int) {
	b.Helper()
	ctx := context.Background()
	sh := s.shards[0]
	var have uint64
	if err := sh.row(ctx, "SELECT count() FROM generations WHERE tenant = 'bench'", &have); err != nil {
		b.Fatal(err)
	}
	if have > 0 {
		return
	}
	began := time.Now()
	now := sh.clock()
	tenants := []*tenant{tn, {s, "other a"}, {s, "other b"}, {s, "other c"}}
	for i, t := range tenants {
		if i == 0 {
			fill(b, sh, t.id, n, now)
		} else {
			fill(b, sh, t.id, n/20, now)
		}
	}
	b.Logf("%d traces made in %v", n, time.Since(began))
	began = time.Now()
	for _, t := range tenants {
		for more := true; more; {
			var err error
			if more, err = t.merge(ctx, sh, math.MaxInt64); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Logf("merged in %v", time.Since(began))
	for i := range benchTail {
		if _, err := tn.Ingest(ctx, benchBatch(i)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkQueries measures the most frequent queries of the control plane.
func BenchmarkQueries(b *testing.B) {
	ctx := context.Background()
	n := 1_000_000
	if v, err := strconv.Atoi(os.Getenv("SVC_BENCH_TRACES")); err == nil {
		n = v
	}
	s, tn := benchStore(b)
	fillAll(b, s, tn, n)
	var latest int64
	if err := s.shards[0].row(ctx, "SELECT max(created) FROM traces WHERE tenant = 'bench'", &latest); err != nil {
		b.Fatal(err)
	}
	now := timeOf(latest) // duration of the fill
	stats := func(days int, by store.GroupBy) func() error {
		return func() error {
			_, err := tn.Stats(ctx, store.StatsQuery{From: now.AddDate(0, 0, -days), To: now, GroupBy: by})
			return err
		}
	}
	list := func(f store.TraceFilter, page store.Page) func() error {
		page.Limit = 51
		return func() error { _, _, _, err := tn.ListUncounted(ctx, f, page); return err }
	}
	var first store.Page
	cost := store.NanoUSD(1_000_999)
	for _, q := range []struct {
		name string
		do   func() error
	}{
		{"stats30d", stats(benchDays, store.GroupNone)},
		{"stats30dByAgent", stats(benchDays, store.GroupByAgent)},
		{"stats30dByEnvironment", stats(benchDays, store.GroupByEnvironment)},
		{"stats24h", stats(1, store.GroupNone)},
		{"page", list(store.TraceFilter{}, first)},
		{"pageOfErrors", list(store.TraceFilter{Status: store.TraceError}, first)},
		{"pageOfAgent", list(store.TraceFilter{AgentID: "agt_7"}, first)},
		{"pageOfEnvironment", list(store.TraceFilter{Environment: "staging"}, first)},
		{"pageOfSession", list(store.TraceFilter{SessionID: fmt.Sprint("session-", n/40)}, first)},
		{"pageOfRareCost", list(store.TraceFilter{MinCost: &cost}, first)},
		{"pageOfAgentAndWeek", list(store.TraceFilter{AgentID: "agt_7", Start: now.AddDate(0, 0, -9), End: now.AddDate(0, 0, -2)}, first)},
		{"pageBehind10000", list(store.TraceFilter{}, store.Page{Offset: 10_000})},
		{"pageBehind100000", list(store.TraceFilter{}, store.Page{Offset: 100_000})},
		{"pageBehindHalf", list(store.TraceFilter{}, store.Page{Offset: n / 2})},
		{"pageAfterHalf", list(store.TraceFilter{}, store.Page{After: store.Place{ID: benchID(n / 2), At: now.AddDate(0, 0, -benchDays/2)}})},
		{"get", func() error { _, err := tn.GetTrace(ctx, benchID(n/2)); return err }},
	} {
		b.Run(q.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := q.do(); err != nil {
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

// benchID returns the id of a trace that fill generated.
func benchID(n int) string { return fmt.Sprintf("018f3c5e-7b1a-7c3d-9e2e-%012x", n) }

// BenchmarkBurst writes the traces of one tenant as fast as it can, and then measures statistics of
// a day: at once, and a minute later. merged is the time after the burst at which all were merged.
func BenchmarkBurst(b *testing.B) {
	ctx := context.Background()
	n := 1_000_000
	if v, err := strconv.Atoi(os.Getenv("SVC_BENCH_TRACES")); err == nil {
		n = v
	}
	records := memory.Open(memory.Options{})
	s := open(b, clickhousetest.Start(b).Database(b), records, Options{})
	if _, _, err := records.CreateTenant(ctx, store.TenantCreate{ID: "bench", Name: "bench", Key: &store.KeyCreate{Name: "k"}}); err != nil {
		b.Fatal(err)
	}
	tn := &tenant{s, "bench"}
	var at atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range benchWriters {
		wg.Go(func() {
			for i := at.Add(1) - 1; i < int64(n/store.MaxIngestBatch); i = at.Add(1) - 1 {
				if _, err := tn.Ingest(ctx, benchBatch(int(i))); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	end := time.Now()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)/end.Sub(began).Seconds(), "traces/s")
	reads := func(name string, count int) {
		var took []time.Duration
		for range count {
			began := time.Now()
			got, err := tn.Stats(ctx, store.StatsQuery{From: began.Add(-24 * time.Hour), To: began.Add(time.Hour), GroupBy: store.GroupByAgent})
			if err != nil || got.Summary.Traces != int64(n) {
				b.Fatalf("%d traces, %v", got.Summary.Traces, err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(took[(len(took)-1)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
	reads("at-once", 5)
	minute := time.After(time.Until(end.Add(time.Minute)))
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for merged, waiting := false, true; waiting; {
		select {
		case <-minute:
			waiting = false
		case <-tick.C:
		}
		s.mu.Lock()
		left := s.fresh[tn.id] != nil
		s.mu.Unlock()
		if !left && !merged {
			merged = true
			b.ReportMetric(time.Since(end).Seconds(), "merged-s")
		}
	}
	reads("minute", 300)
}
