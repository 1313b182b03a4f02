package server

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/api"
	"svc/store/bolt"
)

// BenchmarkGatewayReports measures the reports of 1,000 gateways, one each in 30 seconds, of which only the counters
// change, on a store on disk: with the transaction that writes them once a minute, without the network. %core is
// the share of a core that they take together.
func BenchmarkGatewayReports(b *testing.B) {
	const gateways, every = 1000, 30 * time.Second
	for _, signed := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "signed"}[signed], func(b *testing.B) {
			now := &clock{t: epoch}
			st, err := bolt.Open(b.TempDir()+"/svc.db", bolt.Options{Now: now.Now})
			if err != nil {
				b.Fatal(err)
			}
			defer st.Close()
			secret := NewSecret(store.ScopeIngest)
			if _, _, err := st.CreateTenant(b.Context(), store.TenantCreate{Name: "one", Key: &store.KeyCreate{
				Name: "k", Scope: store.ScopeIngest, Prefix: SecretPrefix(secret), Digest: store.DigestKey(secret)}}); err != nil {
				b.Fatal(err)
			}
			srv, err := New(Options{Records: st, Traces: st, Now: now.Now, RateLimit: 1_000_000, IngestRateLimit: 1_000_000})
			if err != nil {
				b.Fatal(err)
			}
			defer srv.Drain()
			_, key, _ := ed25519.GenerateKey(nil)
			request := func(i int) *http.Request {
				name := fmt.Sprintf("edge-%d", i%gateways)
				body := strings.Replace(reportBody(i%gateways, 1+i/gateways), `"calls":5`, fmt.Sprintf(`"calls":%d`, i), 1)
				req := httptest.NewRequest("PUT", "/api/gateways/"+name, strings.NewReader(body))
				req.Header.Set("Authorization", "Bearer "+secret)
				req.Header.Set("Content-Type", "application/json")
				if signed {
					text := func(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
					req.Header.Set(api.SignatureHeader, text(key.Public().(ed25519.PublicKey))+" "+text(ed25519.Sign(key, api.GatewaySignedText(name, []byte(body)))))
				}
				return req
			}
			report := func(req *http.Request) {
				now.advance(every / gateways)
				w := httptest.NewRecorder()
				if srv.ServeHTTP(w, req); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
			for i := range gateways {
				report(request(i))
			}
			next := gateways
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				req := request(next)
				next++
				b.StartTimer()
				report(req)
			}
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/(every.Seconds()/gateways), "%core")
		})
	}
}
