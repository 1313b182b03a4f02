package server

import (
	"bytes"
	"fmt"
	"io"
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

// BenchmarkIngestHTTP posts batches of 500 traces with time-ordered ids from 4
// clients over loopback to a store on disk with durable commits, the window
// raised. It reports traces a second; the clients run on the same cores.
func BenchmarkIngestHTTP(b *testing.B) {
	const size, clients = 500, 4
	st, err := bolt.Open(filepath.Join(b.TempDir(), "svc.db"), bolt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	secret := NewSecret(store.ScopeAPI)
	if _, _, err := st.CreateTenant(b.Context(), store.TenantCreate{Name: "one", Key: &store.KeyCreate{
		Name: "k", Scope: store.ScopeAPI, Prefix: SecretPrefix(secret), Digest: store.DigestKey(secret)}}); err != nil {
		b.Fatal(err)
	}
	s, err := New(Options{Store: st, RateLimit: 1 << 30, IngestRateLimit: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	began := time.Now()
	var serial atomic.Int64
	body := func(buf []byte) []byte {
		from := serial.Add(size) - size
		buf = append(buf[:0], `{"traces":[`...)
		for i := range int64(size) {
			if i > 0 {
				buf = append(buf, ',')
			}
			n := from + i
			buf = fmt.Appendf(buf, `{"id":"0197%016x","agentName":"agent-%d","status":"success","environment":"production","sessionId":"sess-%d","modelProvider":"openai","modelName":"gpt-4o","inputTokens":%d,"outputTokens":%d,"durationMs":%d.25,"injectionScore":0.02,"createdAt":%q,"toolName":"tool-%d","spans":[{"stage":"policy_eval","durationMs":0.05},{"stage":"provider","durationMs":%d}]}`,
				n, n%50, n/10, 500+n%1000, 100+n%300, 50+n%900, began.Add(time.Duration(n)*time.Microsecond).UTC().Format(time.RFC3339Nano), n%20, 40+n%900)
		}
		return append(buf, "]}"...)
	}
	b.ResetTimer()
	var next atomic.Int64
	var work sync.WaitGroup
	for range clients {
		work.Go(func() {
			var buf []byte
			for next.Add(1) <= int64(b.N) {
				buf = body(buf)
				req, err := http.NewRequest(http.MethodPost, srv.URL+"/api/traces", bytes.NewReader(buf))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+secret)
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				answer, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					b.Errorf("status %d: %s", resp.StatusCode, answer)
					return
				}
			}
		})
	}
	work.Wait()
	b.ReportMetric(float64(b.N)*size/b.Elapsed().Seconds(), "traces/s")
}

// BenchmarkDecodeBatch is the reading and checking of one batch of 500.
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
