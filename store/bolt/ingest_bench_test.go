package bolt

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// Benchmarks of this package, for a real disk and an idle machine:
//
//	SVC_BENCH_DIR=/var/tmp go test -run '^$' -bench 'Ingest' -benchtime 300000x ./store/bolt
//	SVC_BENCH_DIR=/var/tmp go test -run '^$' -bench 'Stored' -benchtime 500x ./store/bolt
//
// Compare rates with raw-bbolt of the same run.

var benchTraces = flag.Int("traces", 1_000_000, "traces that the query benchmarks store")

var benchStart = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)

// traceMaker makes traces of 200 agents, 6 models and 3 environments like those of
// gateways: four spans, a session, a tool, and sometimes a policy.
type traceMaker struct {
	r      *mrand.Rand
	at     time.Time
	step   time.Duration
	random bool // ids that do not sort by time
	n      uint32
}

func newTraceMaker(at time.Time, step time.Duration, random bool) *traceMaker {
	return &traceMaker{r: mrand.New(mrand.NewPCG(1, uint64(at.UnixNano()))), at: at, step: step, random: random}
}

func (m *traceMaker) next() store.Trace {
	m.at = m.at.Add(m.step)
	m.n++
	agent := m.r.IntN(200)
	t := store.Trace{
		ID: m.id(), AgentName: benchAgents[agent], Status: store.TraceSuccess,
		Environment: benchEnvs[m.r.IntN(10)], SessionID: m.uuid(uint64(agent), uint64(m.n)/50),
		ModelProvider: "anthropic", ModelName: benchModels[(agent+m.r.IntN(2))%len(benchModels)],
		ToolName:    benchTools[m.r.IntN(len(benchTools))],
		InputTokens: 200 + m.r.Int64N(8000), OutputTokens: 20 + m.r.Int64N(2000),
		Cost: store.NanoUSD(100_000 + m.r.Int64N(50_000_000)), Duration: time.Duration(20+m.r.ExpFloat64()*900) * time.Millisecond,
		InjectionScore: float64(m.r.IntN(1000)) / 1000, CreatedAt: m.at,
		Spans: []store.Span{{Stage: "policy_eval", Duration: 31 * time.Microsecond}, {Stage: "pii_scan", Duration: 412 * time.Microsecond},
			{Stage: "provider", Duration: 800 * time.Millisecond}, {Stage: "quality_score", Duration: 2 * time.Millisecond}},
		QualityScores: []store.QualityScore{{Scorer: "relevance", Score: 0.87}},
	}
	if m.r.IntN(50) == 0 {
		t.Status = store.TraceError
	}
	if m.r.IntN(20) == 0 {
		t.PIIDetected = []string{"EMAIL"}
		t.PoliciesFired = []store.PolicyFired{{ID: "pol_01hzz6k3v5x4m9c2w8r7t1q0ab", Name: "mask-pii", Action: "redact"}}
	}
	return t
}

// id returns a UUID of version 7, or a random one.
func (m *traceMaker) id() string {
	if m.random {
		return m.uuid(m.r.Uint64(), m.r.Uint64())
	}
	return m.uuid(uint64(m.at.UnixMilli())<<16|0x7000|uint64(m.n&0xfff), m.r.Uint64())
}

func (m *traceMaker) uuid(hi, lo uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

func (m *traceMaker) batch(n int) []store.Trace {
	list := make([]store.Trace, n)
	for i := range list {
		list[i] = m.next()
	}
	return list
}

var (
	benchAgents, benchTools = numbered("agent", 200), numbered("tool", 12)
	benchModels             = numbered("claude-model", 6)
	benchEnvs               = []string{"production", "production", "production", "production", "production",
		"production", "staging", "staging", "staging", "development"}
)

func numbered(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return list
}

func benchStore(b testing.TB) (*Store, *tenant) {
	b.Helper()
	s, err := Open(filepath.Join(benchDir(b), "svc.db"), Options{Now: func() time.Time { return benchStart.AddDate(0, 2, 0) }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	if _, _, err := s.CreateTenant(context.Background(), store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		b.Fatal(err)
	}
	return s, s.tenant("t")
}

// benchDir returns a directory, on a real disk if SVC_BENCH_DIR names one.
func benchDir(b testing.TB) string {
	if dir := os.Getenv("SVC_BENCH_DIR"); dir != "" {
		dir, err := os.MkdirTemp(dir, "svc-bench-")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	return b.TempDir()
}

func mustIngest(b testing.TB, t store.TenantTraces, batch []store.Trace) {
	b.Helper()
	res, err := t.Ingest(context.Background(), store.Batch{Traces: batch})
	if err != nil || res.Accepted != len(batch) {
		b.Fatalf("ingest: %+v, %v", res, err)
	}
}

// BenchmarkIngest ingests batches of 500 from 4 callers. The baseline is raw
// bbolt: the same number of records of the same size in one bucket, with one index
// and nothing else, 500 per transaction.
func BenchmarkIngest(b *testing.B) {
	for _, bc := range []struct {
		name    string
		random  bool
		callers int
	}{{"ordered", false, 1}, {"ordered-4-callers", false, 4}, {"random", true, 1}} {
		b.Run(bc.name, func(b *testing.B) {
			_, t := benchStore(b)
			const size = 500
			work := make(chan []store.Trace, 8)
			done := make(chan struct{})
			m := newTraceMaker(benchStart, 10*time.Millisecond, bc.random)
			mustIngest(b, t, m.batch(1000)) // agents are registered
			batches := make([][]store.Trace, (b.N+size-1)/size)
			for i := range batches {
				batches[i] = m.batch(min(size, b.N-i*size))
			}
			b.ResetTimer()
			began := cpuTime()
			for range bc.callers {
				go func() {
					for batch := range work {
						if _, err := t.Ingest(context.Background(), store.Batch{Traces: batch}); err != nil {
							b.Error(err)
						}
					}
					done <- struct{}{}
				}()
			}
			for _, batch := range batches {
				work <- batch
			}
			close(work)
			for range bc.callers {
				<-done
			}
			reportIngest(b, cpuTime()-began)
		})
	}
	b.Run("raw-bbolt", func(b *testing.B) { rawBaseline(b) })
}

func rawBaseline(b *testing.B) {
	db, err := bbolt.Open(filepath.Join(benchDir(b), "raw.db"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	value := make([]byte, 170)
	_, _ = rand.Read(value)
	b.ResetTimer()
	began := cpuTime()
	for n := 0; n < b.N; n += 500 {
		err := db.Update(func(tx *bbolt.Tx) error {
			records, err := tx.CreateBucketIfNotExists([]byte("records"))
			if err != nil {
				return err
			}
			index, err := tx.CreateBucketIfNotExists([]byte("index"))
			if err != nil {
				return err
			}
			records.FillPercent, index.FillPercent = fill, fill
			for i := n; i < n+500 && i < b.N; i++ {
				if err := records.Put(bytes8(uint64(i)), value); err != nil {
					return err
				}
				if err := index.Put(append(bytes8(uint64(i)), bytes8(uint64(i))...), bytes8(uint64(i))); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	reportIngest(b, cpuTime()-began)
}

// reportIngest reports the rate, and the processor time per trace, which does not
// depend on other load of the machine.
func reportIngest(b *testing.B, cpu time.Duration) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "traces/s")
	b.ReportMetric(float64(cpu.Nanoseconds())/1e3/float64(b.N), "cpu-us/trace")
}

// BenchmarkStored fills a store with -traces over 30 days and reports, besides the
// queries: bytes per trace on disk, and the rate of ingest of the last tenth
// compared with traces 10,000 to 110,000.
func BenchmarkStored(b *testing.B) {
	s, t := benchStore(b)
	n := *benchTraces
	m := newTraceMaker(benchStart, 30*24*time.Hour/time.Duration(n), false)
	var early, late, earlyCPU, lateCPU time.Duration
	var earlyN, lateN int
	for i := 0; i < n; i += 500 {
		batch := m.batch(500)
		began, cpu := time.Now(), cpuTime()
		mustIngest(b, t, batch)
		took, cpu := time.Since(began), cpuTime()-cpu
		switch {
		case i >= 10_000 && i < 110_000:
			early, earlyCPU, earlyN = early+took, earlyCPU+cpu, earlyN+500
		case i >= n-100_000:
			late, lateCPU, lateN = late+took, lateCPU+cpu, lateN+500
		}
	}
	info, err := s.Info(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("stored %d traces: %.0f bytes per trace; ingest at 10,000: %.0f traces/s, %.1f cpu-us/trace; at the end: %.0f traces/s, %.1f cpu-us/trace\n", n,
		float64(info.SizeBytes)/float64(n), float64(earlyN)/early.Seconds(), earlyCPU.Seconds()*1e6/float64(earlyN),
		float64(lateN)/late.Seconds(), lateCPU.Seconds()*1e6/float64(lateN))

	end := benchStart.AddDate(0, 0, 30)
	ctx := context.Background()
	minCost, maxCost := store.NanoUSD(10_000_000), store.NanoUSD(30_000_000)
	known := m.batch(1)[0]
	mustIngest(b, t, []store.Trace{known})
	for _, q := range []struct {
		name string
		run  func() error
	}{
		{"stats-30d-by-agent", func() error {
			_, err := t.Stats(ctx, store.StatsQuery{From: end.AddDate(0, 0, -30).Add(97 * time.Minute), To: end.Add(-7 * time.Minute), GroupBy: store.GroupByAgent})
			return err
		}},
		{"stats-30d-by-model", func() error {
			_, err := t.Stats(ctx, store.StatsQuery{From: end.AddDate(0, 0, -30).Add(97 * time.Minute), To: end.Add(-7 * time.Minute), GroupBy: store.GroupByModel})
			return err
		}},
		{"stats-30d-by-environment", func() error {
			_, err := t.Stats(ctx, store.StatsQuery{From: end.AddDate(0, 0, -30).Add(97 * time.Minute), To: end.Add(-7 * time.Minute), GroupBy: store.GroupByEnvironment})
			return err
		}},
		{"stats-30d-one-agent-by-model", func() error {
			a, _, err := t.ListAgents(ctx, store.AgentFilter{}, store.Page{Limit: 1})
			if err != nil {
				return err
			}
			_, err = t.Stats(ctx, store.StatsQuery{From: end.AddDate(0, 0, -30).Add(97 * time.Minute), To: end.Add(-7 * time.Minute), AgentID: a[0].ID, GroupBy: store.GroupByModel})
			return err
		}},
		{"list-filtered", func() error {
			_, total, err := t.ListTraces(ctx, store.TraceFilter{Status: store.TraceError, Environment: "production", MinCost: &minCost, MaxCost: &maxCost}, store.Page{Limit: 50})
			if err == nil && total == 0 {
				err = fmt.Errorf("nothing found")
			}
			return err
		}},
		{"list-first-page", func() error {
			_, _, err := t.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 50})
			return err
		}},
		{"list-offset-500000", func() error {
			_, _, err := t.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 50, Offset: n / 2})
			return err
		}},
		{"get", func() error { _, err := t.GetTrace(ctx, known.ID); return err }},
	} {
		b.Run(q.name, func(b *testing.B) {
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				began := time.Now()
				if err := q.run(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
		})
	}
	path := s.path
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	again, err := Open(path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("opened in %v\n", time.Since(began))
	again.Close()
}
