package bolt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/store"
)

// Benchmarks of a large store. The file is created once, in the directory that
// SVC_BENCH_LARGE names, and reused by later runs:
//
//	SVC_BENCH_LARGE=/var/tmp/large go test ./store/bolt -run '^$' -bench Large -benchtime 200x -timeout 60m -traces 10000000

// largeDays is the number of days that the traces of a large store span.
const largeDays = 30

func largeEnd() time.Time { return benchStart.AddDate(0, 0, largeDays) }

// largePath returns the file of the large store, and creates it if there is none.
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

// fillLarge stores n traces of 30 days as gateways report them: in the order of time,
// except for one batch in fifty, which is up to two hours late. Minute rollups are removed
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
	t, m := s.tenant("t"), newTraceMaker(benchStart, largeDays*24*time.Hour/time.Duration(n), false)
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
	s, err := Open(largePath(b), Options{Now: largeEnd, facetsLater: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	began := time.Now()
	for steps := 0; ; steps++ {
		left, err := s.facetMore(facetStep)
		if err != nil {
			b.Fatal(err)
		}
		if !left {
			if steps > 0 {
				fmt.Printf("made facets in %d steps and %v\n", steps, time.Since(began).Round(time.Second))
			}
			break
		}
	}
	t := s.tenant("t")
	list, _, err := t.ListTraces(context.Background(), store.TraceFilter{}, store.Page{Limit: 1, Offset: *benchTraces / 3})
	if err != nil || len(list) != 1 {
		b.Fatalf("%d traces, %v", len(list), err)
	}
	return s, t, list[0]
}

// measure reports the median and the 99th percentile of many runs.
func measure(b *testing.B, name string, run func() error) {
	b.Run(name, func(b *testing.B) {
		took, cpu := make([]time.Duration, 0, b.N), cpuTime()
		for b.Loop() {
			began := time.Now()
			if err := run(); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		cpu = cpuTime() - cpu
		slices.Sort(took)
		b.ReportMetric(float64(cpu)/float64(len(took))/1e6, "cpu-ms")
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

// BenchmarkLargeStats measures statistics, and the spend queries of budgets.
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
		month = append(month, store.SpendQuery{Payer: store.Payer{AgentID: a.ID}, From: benchStart, To: to})
	}
	measure(b, fmt.Sprintf("spend-of-%d-agents", len(month)), func() error { _, err := t.Spend(ctx, month); return err })
	measure(b, "spend-of-one-agent", func() error { _, err := t.Spend(ctx, month[:1]); return err })
}

// BenchmarkLargeRetention ingests 10,000 traces a second into a copy of the large store
// while as many become too old every second and a backlog of three fifths of the store is
// removed, with the pauses of the server. An iteration takes a second:
//
//	SVC_BENCH_LARGE=/var/tmp/large go test ./store/bolt -run '^$' -bench LargeRetention -benchtime 120x -traces 10000000
//
// It prints the backlog every ten seconds. Retention keeps pace if the backlog shrinks.
func BenchmarkLargeRetention(b *testing.B) {
	if b.N == 1 {
		return // go test runs every benchmark once in its tests
	}
	const rate, size = 10_000, 500
	from, copied := largePath(b), filepath.Join(os.Getenv("SVC_BENCH_LARGE"), "retention.db")
	if err := copyFile(copied, from); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.Remove(copied) })
	ctx, n := context.Background(), *benchTraces
	s, err := Open(copied, Options{Now: func() time.Time { return largeEnd().AddDate(1, 0, 0) }})
	for left := true; left && err == nil; {
		left, err = s.facetMore(facetStep)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	t, step := s.tenant("t"), largeDays*24*time.Hour/time.Duration(n)
	m := newTraceMaker(largeEnd(), step, false)
	seconds, began := b.N, time.Now()
	now := func() time.Time { return largeEnd().Add(step * time.Duration(time.Since(began).Seconds()*rate)) }
	cutoff := func() time.Time { return now().Add(-step * time.Duration(n*2/5)) }
	backlog := func() int {
		_, n, err := t.ListTraces(ctx, store.TraceFilter{End: cutoff().Add(-1)}, store.Page{Limit: 1})
		if err != nil {
			b.Error(err)
		}
		return n
	}
	var removed, minutes atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	var longest time.Duration
	go func() {
		defer close(done)
		for {
			step := time.Now()
			res, err := t.Expire(ctx, store.ExpireBounds{Traces: cutoff(), Minutes: now().Add(-48 * time.Hour), Budget: 25 * time.Millisecond})
			if err != nil {
				b.Error(err)
				return
			}
			took := time.Since(step)
			longest = max(longest, took)
			removed.Add(int64(res.Traces))
			minutes.Add(int64(res.Minutes))
			select {
			case <-stop:
				return
			case <-time.After(took):
			}
		}
	}()
	first, stored := backlog(), 0
	var (
		mu      sync.Mutex
		took    []time.Duration
		callers sync.WaitGroup
		slots   = make(chan struct{}, 16) // gateways that send concurrently
	)
	start := time.Now()
	for report := 10 * time.Second; stored < rate*seconds; stored += size {
		batch := m.batch(size)
		due := start.Add(time.Duration(stored) * time.Second / rate)
		<-time.After(time.Until(due))
		slots <- struct{}{}
		callers.Go(func() {
			mustIngest(b, t, batch)
			mu.Lock()
			took = append(took, time.Since(due))
			mu.Unlock()
			<-slots
		})
		if since := time.Since(start); since > report {
			info, _ := s.Info(ctx)
			mu.Lock()
			recent := slices.Sorted(slices.Values(took[max(len(took)-10*rate/size, 0):]))
			mu.Unlock()
			fmt.Printf("%3.0f s: %d behind, %d removed, %d minutes; file %d MB, %d MB free; ingest p50 %v p99 %v max %v\n", since.Seconds(), backlog(), removed.Load(), minutes.Load(),
				info.SizeBytes>>20, info.FreeBytes>>20, recent[len(recent)/2].Round(time.Millisecond), recent[len(recent)*99/100].Round(time.Millisecond), recent[len(recent)-1].Round(time.Millisecond))
			report += 10 * time.Second
		}
	}
	callers.Wait()
	wall := time.Since(start)
	close(stop)
	<-done
	last := backlog()
	slices.Sort(took)
	b.ReportMetric(float64(stored)/wall.Seconds(), "ingested/s")
	b.ReportMetric(float64(removed.Load())/wall.Seconds(), "removed/s")
	b.ReportMetric(float64(first), "behind-at-first")
	b.ReportMetric(float64(last), "behind-at-last")
	b.ReportMetric(float64(took[len(took)/2])/1e6, "ingest-p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100])/1e6, "ingest-p99-ms")
	b.ReportMetric(float64(took[len(took)-1])/1e6, "ingest-max-ms")
	b.ReportMetric(float64(longest)/1e6, "longest-expire-ms")
	b.ReportMetric(0, "ns/op")
}

// copyFile copies a file.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
