package server

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/store"
	"svc/store/bolt"
)

// BenchmarkIngest ingests batches of 500 traces from 4 clients into a store
// on disk with durable commits: over HTTP on loopback (the clients share the
// CPUs), with time-ordered and with random ids. The same traces written
// directly to the store are the baseline. It reports traces per second.
func BenchmarkIngest(b *testing.B) {
	b.Run("http", func(b *testing.B) { benchmarkHTTP(b, false) })
	b.Run("http random ids", func(b *testing.B) { benchmarkHTTP(b, true) })
	b.Run("store", benchmarkStore)
}

const benchBatch, benchClients = 500, 4

// benchStore opens a store that syncs, with one tenant and key.
func benchStore(b *testing.B) (store.Engine, store.TenantTraces, string) {
	b.Helper()
	st, err := bolt.Open(filepath.Join(b.TempDir(), "svc.db"), bolt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	secret := NewSecret(store.ScopeAPI)
	info, _, err := st.CreateTenant(b.Context(), store.TenantCreate{Name: "one", Key: &store.KeyCreate{
		Name: "k", Scope: store.ScopeAPI, Prefix: SecretPrefix(secret), Digest: store.DigestKey(secret)}})
	if err != nil {
		b.Fatal(err)
	}
	return st, st.TracesOf(info.ID), secret
}

// fromClients runs b.N batches, distributed over the clients.
func fromClients(b *testing.B, client func() func() error) {
	b.Helper()
	var next atomic.Int64
	var work sync.WaitGroup
	b.ResetTimer()
	for range benchClients {
		one := client()
		work.Go(func() {
			for next.Add(1) <= int64(b.N) {
				if err := one(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	b.ReportMetric(float64(b.N)*benchBatch/b.Elapsed().Seconds(), "traces/s")
}

func benchmarkHTTP(b *testing.B, random bool) {
	st, _, secret := benchStore(b)
	s, err := New(Options{Records: st, Traces: st, RateLimit: 1 << 30, IngestRateLimit: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	http1 := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: benchClients}}
	began := time.Now()
	var serial atomic.Int64
	fromClients(b, func() func() error {
		var buf []byte
		return func() error {
			from := serial.Add(benchBatch) - benchBatch
			buf = append(buf[:0], `{"traces":[`...)
			for n := from; n < from+benchBatch; n++ {
				if n > from {
					buf = append(buf, ',')
				}
				id := uint64(n)
				if random {
					id = rand.Uint64()
				}
				buf = fmt.Appendf(buf, `{"id":"0197%016x","agentName":"agent-%d","status":"success","environment":"production","sessionId":"sess-%d","modelProvider":"openai","modelName":"gpt-4o","inputTokens":%d,"outputTokens":%d,"durationMs":%d.25,"injectionScore":0.02,"createdAt":%q,"toolName":"tool-%d","spans":[{"stage":"policy_eval","durationMs":0.05},{"stage":"provider","durationMs":%d}]}`,
					id, n%50, n/10, 500+n%1000, 100+n%300, 50+n%900, began.Add(time.Duration(n)*time.Microsecond).UTC().Format(time.RFC3339Nano), n%20, 40+n%900)
			}
			buf = append(buf, "]}"...)
			req, err := http.NewRequest(http.MethodPost, srv.URL+"/api/traces", bytes.NewReader(buf))
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+secret)
			resp, err := http1.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusCreated {
				return fmt.Errorf("status %d: %s", resp.StatusCode, answer)
			}
			return nil
		}
	})
}

func benchmarkStore(b *testing.B) {
	_, tenant, _ := benchStore(b)
	began := time.Now()
	var serial atomic.Int64
	fromClients(b, func() func() error {
		return func() error {
			from := serial.Add(benchBatch) - benchBatch
			traces := make([]store.Trace, benchBatch)
			for i := range traces {
				n := from + int64(i)
				traces[i] = store.Trace{ID: fmt.Sprintf("0197%016x", n), AgentName: fmt.Sprintf("agent-%d", n%50), Status: store.TraceSuccess,
					Environment: "production", SessionID: fmt.Sprintf("sess-%d", n/10), ModelProvider: "openai", ModelName: "gpt-4o",
					InputTokens: 500 + n%1000, OutputTokens: 100 + n%300, Duration: time.Duration(50+n%900) * time.Millisecond,
					InjectionScore: 0.02, CreatedAt: began.Add(time.Duration(n) * time.Microsecond), ToolName: fmt.Sprintf("tool-%d", n%20),
					Spans: []store.Span{{Stage: "policy_eval", Duration: 50 * time.Microsecond}, {Stage: "provider", Duration: time.Duration(40+n%900) * time.Millisecond}}}
			}
			_, err := tenant.Ingest(b.Context(), store.Batch{Traces: traces})
			return err
		}
	})
}

// BenchmarkDecodeBatch measures decoding and checking a batch of 500.
func BenchmarkDecodeBatch(b *testing.B) {
	var many []string
	for i := range 500 {
		many = append(many, traceAt(fmt.Sprintf("0197%016x", i), "agent-7", "success", epoch, "environment", `"production"`, "sessionId", `"sess-1"`,
			"modelProvider", `"openai"`, "modelName", `"gpt-4o"`, "inputTokens", "500", "outputTokens", "100", "injectionScore", "0.02", "toolName", `"t"`,
			"spans", `[{"stage":"policy_eval","durationMs":0.05},{"stage":"provider","durationMs":40}]`))
	}
	body := []byte(batch(many...))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var in ingestBody
		if err := decodeStrict(body, &in); err != nil {
			b.Fatal(err)
		}
		if wrong := in.Validate(); wrong != nil {
			b.Fatal(wrong)
		}
	}
}
