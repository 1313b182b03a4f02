package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"svc/store"
)

// The figures of a large store. The file is made once, in the directory that
// SVC_BENCH_LARGE names, and used again by later runs:
//
//	SVC_BENCH_LARGE=/var/tmp/large go test ./store/bolt -run '^$' -bench Large -benchtime 200x -timeout 60m -traces 10000000

// largeDays is the time that the traces of a large store take.
const largeDays = 30

func largeEnd() time.Time { return benchStart.AddDate(0, 0, largeDays) }

// largePath is the file of the large store, made where there is none.
func largePath(b *testing.B) string {
	b.Helper()
	dir := os.Getenv("SVC_BENCH_LARGE")
	if dir == "" {
		b.Skip("SVC_BENCH_LARGE names no directory")
	}
	path := filepath.Join(dir, fmt.Sprintf("traces-%d.db", *benchTraces))
	if _, err := os.Stat(path); err == nil {
		return path
	} else if !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	making := path + ".making"
	os.Remove(making)
	fillLarge(b, making, *benchTraces)
	if err := os.Rename(making, path); err != nil {
		b.Fatal(err)
	}
	return path
}

// fillLarge stores n traces of 30 days as gateways report them: in the order of time, but
// for one batch in fifty, which is up to two hours late. Minutes of statistics are removed
// as the server does.
func fillLarge(b *testing.B, path string, n int) {
	ctx := context.Background()
	s, err := Open(path, Options{Now: largeEnd, NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		b.Fatal(err)
	}
	t, m := &tenant{s: s, id: "t"}, newTraceMaker(benchStart, largeDays*24*time.Hour/time.Duration(n), false)
	began := time.Now()
	for i := 0; i < n; i += 500 {
		if at := m.at; i/500%50 == 49 {
			m.at = at.Add(-time.Duration(m.r.Int64N(int64(2 * time.Hour))))
			mustIngest(b, t, m.batch(500))
			m.at = at
		} else {
			mustIngest(b, t, m.batch(500))
		}
		if i%100_000 != 0 {
			continue
		}
		for more := true; more; {
			res, err := t.Expire(ctx, store.ExpireBounds{Minutes: m.at.Add(-48 * time.Hour)})
			if err != nil {
				b.Fatal(err)
			}
			more = res.More
		}
	}
	took := time.Since(began)
	info, err := s.Info(ctx)
	if err := errors.Join(err, s.db.Sync(), s.Close()); err != nil {
		b.Fatal(err)
	}
	fmt.Printf("stored %d traces in %v, %d bytes, %d of them free\n", n, took.Round(time.Second), info.SizeBytes, info.FreeBytes)
}

// openLarge opens the large store, and returns one of its traces from the middle.
func openLarge(b *testing.B) (*Store, *tenant, store.Trace) {
	b.Helper()
	s, err := Open(largePath(b), Options{Now: largeEnd})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	t := &tenant{s: s, id: "t"}
	list, _, err := t.ListTraces(context.Background(), store.TraceFilter{}, store.Page{Limit: 1, Offset: *benchTraces / 3})
	if err != nil || len(list) != 1 {
		b.Fatalf("%d traces, %v", len(list), err)
	}
	return s, t, list[0]
}

// measure reports the median and the 99th percentile of many runs.
func measure(b *testing.B, name string, run func() error) {
	b.Run(name, func(b *testing.B) {
		took := make([]time.Duration, 0, b.N)
		for b.Loop() {
			began := time.Now()
			if err := run(); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
		b.ReportMetric(float64(took[len(took)-1])/1e6, "max-ms")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkLargeLists measures pages of the list of traces.
func BenchmarkLargeLists(b *testing.B) {
	_, t, some := openLarge(b)
	ctx, n := context.Background(), *benchTraces
	nano := func(v store.NanoUSD) *store.NanoUSD { return &v }
	end, score := largeEnd(), 0.999
	for _, q := range []struct {
		name string
		f    store.TraceFilter
		page store.Page
	}{
		{"first-page", store.TraceFilter{}, store.Page{}},
		{"agent", store.TraceFilter{AgentID: some.AgentID}, store.Page{}},
		{"status", store.TraceFilter{Status: store.TraceError}, store.Page{}},
		{"environment", store.TraceFilter{Environment: "staging"}, store.Page{}},
		{"all-three", store.TraceFilter{AgentID: some.AgentID, Status: store.TraceError, Environment: "production"}, store.Page{}},
		{"rare-cost", store.TraceFilter{MinCost: nano(50_099_500)}, store.Page{}},
		{"score", store.TraceFilter{MinInjectionScore: &score}, store.Page{}},
		{"model", store.TraceFilter{ModelName: some.ModelName}, store.Page{}},
		{"one-day", store.TraceFilter{Start: end.AddDate(0, 0, -10), End: end.AddDate(0, 0, -9)}, store.Page{}},
		{"session", store.TraceFilter{SessionID: some.SessionID}, store.Page{}},
		{"session-of-a-day", store.TraceFilter{SessionID: some.SessionID, Start: some.CreatedAt.Add(-12 * time.Hour), End: some.CreatedAt.Add(12 * time.Hour)}, store.Page{}},
		{"agent-name", store.TraceFilter{AgentName: some.AgentName}, store.Page{}},
		{"tool", store.TraceFilter{ToolName: some.ToolName}, store.Page{}},
		{"no-such-tool", store.TraceFilter{ToolName: "no-such-tool"}, store.Page{}},
		{"policy", store.TraceFilter{PolicyID: "pol_01hzz6k3v5x4m9c2w8r7t1q0ab"}, store.Page{}},
		{"request", store.TraceFilter{RequestID: "no-such-request"}, store.Page{}},
		{"duration", store.TraceFilter{MinDuration: 10 * time.Second}, store.Page{}},
		{"offset-100000", store.TraceFilter{}, store.Page{Offset: 100_000}},
		{"offset-a-tenth", store.TraceFilter{}, store.Page{Offset: n / 10}},
		{"offset-half", store.TraceFilter{}, store.Page{Offset: n / 2}},
		{"offset-last-page", store.TraceFilter{}, store.Page{Offset: n - 50}},
		{"offset-half-of-one-week", store.TraceFilter{Start: end.AddDate(0, 0, -7)}, store.Page{Offset: n / 10}},
		{"offset-half-of-status", store.TraceFilter{Status: store.TraceSuccess}, store.Page{Offset: n / 2}},
		{"offset-half-of-environment", store.TraceFilter{Environment: "production"}, store.Page{Offset: n / 3}},
		{"cursor-third", store.TraceFilter{}, store.Page{After: store.Place{ID: some.ID, At: some.CreatedAt}}},
		{"cursor-last", store.TraceFilter{}, store.Page{After: store.Place{ID: "gone", At: benchStart.Add(time.Minute)}}},
		{"cursor-third-of-status", store.TraceFilter{Status: store.TraceSuccess}, store.Page{After: store.Place{ID: some.ID, At: some.CreatedAt}}},
	} {
		q.page.Limit = 50
		measure(b, q.name, func() error {
			_, _, err := t.ListTraces(ctx, q.f, q.page)
			return err
		})
	}
	measure(b, "get", func() error { _, err := t.GetTrace(ctx, some.ID); return err })
}

// BenchmarkLargeStats measures statistics, and what budgets ask.
func BenchmarkLargeStats(b *testing.B) {
	_, t, some := openLarge(b)
	ctx, to := context.Background(), largeEnd().Add(-7*time.Minute)
	for _, window := range []struct {
		name string
		span time.Duration
	}{{"24h", 24 * time.Hour}, {"30d", 30*24*time.Hour - 97*time.Minute}} {
		for _, by := range []store.GroupBy{store.GroupNone, store.GroupByAgent, store.GroupByModel, store.GroupByEnvironment} {
			measure(b, fmt.Sprintf("%s-by-%v", window.name, by), func() error {
				_, err := t.Stats(ctx, store.StatsQuery{From: to.Add(-window.span), To: to, GroupBy: by})
				return err
			})
		}
		measure(b, window.name+"-of-one-agent-by-model", func() error {
			_, err := t.Stats(ctx, store.StatsQuery{From: to.Add(-window.span), To: to, AgentID: some.AgentID, GroupBy: store.GroupByModel})
			return err
		})
	}
	agents, _, err := t.ListAgents(ctx, store.AgentFilter{}, store.Page{})
	if err != nil {
		b.Fatal(err)
	}
	var month []store.SpendQuery
	for _, a := range agents {
		month = append(month, store.SpendQuery{AgentID: a.ID, From: benchStart, To: to})
	}
	measure(b, fmt.Sprintf("spend-of-%d-agents", len(month)), func() error { _, err := t.Spend(ctx, month); return err })
	measure(b, "spend-of-one-agent", func() error { _, err := t.Spend(ctx, month[:1]); return err })
}
