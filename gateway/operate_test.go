package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/gateway/auth"
	"svc/gateway/license"
	"svc/test/certtest"
)

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveTLS serves the rig's gateway over TLS and returns its address.
func serveTLS(t *testing.T, r *rig) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: r.gateway, ErrorLog: nil}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(tls.NewListener(ln, r.gateway.TLSConfig()))
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	return "https://" + ln.Addr().String() + "/healthz"
}

// subject requests /healthz and returns the common name of the certificate.
func subject(url string, conf *tls.Config) (string, error) {
	transport := &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.TLS.PeerCertificates[0].Subject.CommonName, err
}

// On SIGHUP the certificate files are read again. If that fails, the previous certificate stays
// active, and the rest of the reload is applied.
func TestCertificatesAreRereadOnReload(t *testing.T) {
	ca := certtest.New(t, t.TempDir(), "ca")
	issue := func(subject string) certtest.Pair {
		return ca.Issue("server", func(c *x509.Certificate) { c.Subject.CommonName = subject })
	}
	cert := issue("one")
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", cert.CertFile, cert.KeyFile))
	url := serveTLS(t, r)
	conf := &tls.Config{RootCAs: ca.Pool()}
	if got, err := subject(url, conf); err != nil || got != "one" {
		t.Fatalf("got %q, %v", got, err)
	}
	issue("two")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := subject(url, conf); err != nil || got != "two" {
		t.Errorf("after a reload: %q, %v", got, err)
	}
	write(t, cert.CertFile, []byte("not a certificate"))
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Errorf("a bad certificate failed the whole reload: %v", err)
	}
	if got, err := subject(url, conf); err != nil || got != "two" {
		t.Errorf("after a bad certificate: %q, %v", got, err)
	}
	if !strings.Contains(r.logs.String(), "previous one stays active") {
		t.Error("nothing was logged")
	}
}

// With tls.client_ca every client must present a certificate of that CA.
func TestMutualTLS(t *testing.T) {
	ca, stranger := certtest.New(t, t.TempDir(), "ca"), certtest.New(t, t.TempDir(), "ca")
	cert := ca.Issue("server")
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+fmt.Sprintf("tls: {cert_file: %s, key_file: %s, client_ca: %s}\n", cert.CertFile, cert.KeyFile, ca.CertFile))
	url := serveTLS(t, r)
	for _, tt := range []struct {
		name string
		by   *certtest.Authority
		ok   bool
	}{{"none", nil, false}, {"another CA", stranger, false}, {"this CA", ca, true}} {
		t.Run(tt.name, func(t *testing.T) {
			conf := &tls.Config{RootCAs: ca.Pool()}
			if tt.by != nil {
				pair := tt.by.Issue("client").Certificate
				conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			}
			if _, err := subject(url, conf); (err == nil) != tt.ok {
				t.Errorf("got %v, want let in %v", err, tt.ok)
			}
		})
	}
}

func TestSwitchingTLSOnOrOffNeedsARestart(t *testing.T) {
	cert := certtest.New(t, t.TempDir(), "server")
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	section := fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\npolicy:", cert.CertFile, cert.KeyFile)
	r.edit("policy:", section)
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.gateway.TLSConfig() != nil {
		t.Error("TLS was switched on without a restart")
	}
	base := strings.TrimSuffix(r.url, "/mcp")
	if got := r.do(http.MethodGet, base+"/readyz", "").body; got != `{"status":"ok","restart_pending":["tls"]}` {
		t.Errorf("readyz: %s", got)
	}
}

// The license states and the responses of /readyz; /mcp is served throughout.
func TestLicenseStates(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	base := strings.TrimSuffix(r.url, "/mcp")
	path := filepath.Join(r.dir, "license.jwt")
	issue := func(ago time.Duration, days, grace int) {
		t.Helper()
		if _, err := license.Issue(license.Request{KeyFile: filepath.Join(r.dir, "license.key"), Subject: "t", Days: days, GraceDays: grace, Out: path, Now: time.Now().Add(-ago)}); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	steps := []struct {
		name string
		do   func()
		want int
	}{
		{"valid", func() { issue(0, 30, 5) }, 200},
		{"in grace", func() { issue(32*day, 30, 5) }, 200},
		{"expired beyond grace", func() { issue(36*day, 30, 5) }, 503},
		{"replacing the file recovers", func() { issue(0, 30, 5) }, 200},
		{"bad signature", func() { write(t, path, []byte("e30.e30.e30")) }, 503},
		{"readable by others", func() {
			issue(0, 30, 5)
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}, 503},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			s.do()
			if err := r.gateway.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := r.do(http.MethodGet, base+"/readyz", "")
			if got.status != s.want || s.want == 503 && got.body != "" {
				t.Errorf("readyz: %d %q, want %d", got.status, got.body, s.want)
			}
			if got := r.post(call("1", "safe")); got.status != 200 {
				t.Errorf("/mcp: %d", got.status)
			}
		})
	}
}

func TestAuthDisabledAcceptsAnyoneAndWarnsBeyondLoopback(t *testing.T) {
	up := newUpstream(t, echo)
	off := "\nauth: {enabled: false}\n"
	r := newRig(t, basic(up.URL)+off)
	if got := r.post(call("1", "safe"), "Authorization", ""); got.status != 200 {
		t.Errorf("got %d", got.status)
	}
	if line := r.lines(1)[0]; line["principal"] != "127.0.0.1" || line["principal_kind"] != "ip" {
		t.Errorf("principal without auth: %v", line)
	}
	if strings.Contains(r.logs.String(), "AUTHENTICATION IS OFF") {
		t.Error("a warning on loopback")
	}
	cfg := *r.gateway.services.Live.Load().Config
	cfg.Listen = "0.0.0.0:8090"
	r.gateway.warn(&cfg)
	if !strings.Contains(r.logs.String(), "AUTHENTICATION IS OFF") {
		t.Error("no warning on 0.0.0.0")
	}
}

func TestTrustedProxyStatesTheClientAddress(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+"trusted_proxies: [127.0.0.0/8]\ninput_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 1}\n")
	first := r.post(call("1", "safe"), "X-Forwarded-For", "203.0.113.1")
	second := r.post(call("1", "safe"), "X-Forwarded-For", "203.0.113.2")
	third := r.post(call("1", "safe"), "X-Forwarded-For", "203.0.113.1")
	if first.status != 200 || second.status != 200 || third.status != 429 {
		t.Errorf("got %d %d %d, want 200 200 429: buckets are keyed by the stated address", first.status, second.status, third.status)
	}
	if line := r.lines(3)[0]; line["client_ip"] != "203.0.113.1" {
		t.Errorf("client_ip %v", line["client_ip"])
	}
}

// Behind a proxy that maintains X-Forwarded-For and forwards Forwarded unchanged, a client could
// choose its own address; the selected header prevents it.
func TestAClientCannotChooseItsAddressInTheOtherHeader(t *testing.T) {
	up := newUpstream(t, echo)
	settings := "trusted_proxies: [127.0.0.0/8]\ninput_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 3}\n"
	calls := func(r *rig) (statuses []int) {
		for i := range 6 {
			got := r.post(call("1", "safe"), "X-Forwarded-For", "198.51.100.7", "Forwarded", fmt.Sprintf("for=203.0.113.%d", i+1))
			statuses = append(statuses, got.status)
		}
		return statuses
	}
	selected := newRig(t, basic(up.URL)+settings+"client_address_header: x-forwarded-for\n")
	if diff := cmp.Diff([]int{200, 200, 200, 429, 429, 429}, calls(selected)); diff != "" {
		t.Error(diff)
	}
	if line := selected.lines(6)[0]; line["client_ip"] != "198.51.100.7" {
		t.Errorf("client_ip %v", line["client_ip"])
	}
	if strings.Contains(selected.logs.String(), "X-Forwarded-For") {
		t.Errorf("a warning about a header that is ignored: %s", selected.logs)
	}
	both := newRig(t, basic(up.URL)+settings)
	if diff := cmp.Diff([]int{200, 200, 200, 200, 200, 200}, calls(both)); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(both.logs.String(), "set client_address_header"); n != 1 {
		t.Errorf("%d warnings, want 1: %s", n, both.logs)
	}
}

// The addresses of one IPv6 /64 share one bucket, because a single subscriber has a whole /64.
func TestInputRateLimitCountsNetworksOfIPv6(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+"trusted_proxies: [127.0.0.0/8]\ninput_rate_limit: {enabled: true, requests_per_second: 0.001, burst: 3}\n")
	var statuses []int
	for _, from := range []string{"2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:1:ffff::3", "2001:db8:0:1::4", "2001:db8:0:2::1", "192.0.2.1"} {
		statuses = append(statuses, r.post(call("1", "safe"), "X-Forwarded-For", from).status)
	}
	if diff := cmp.Diff([]int{200, 200, 200, 429, 200, 200}, statuses); diff != "" {
		t.Error(diff)
	}
	if line := r.lines(6)[3]; line["client_ip"] != "2001:db8:0:1::4" {
		t.Errorf("client_ip %v: the address itself is recorded", line["client_ip"])
	}
}

// Reloads under load fail no request, and leak no goroutine or file.
func TestReloadsUnderLoadFailNoRequest(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	r.post(call("1", "safe"))
	before := runtime.NumGoroutine()
	stop := make(chan struct{})
	var served, failed atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				default:
				}
				req, err := http.NewRequest(http.MethodPost, r.url, bytes.NewReader([]byte(call("1", "safe"))))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+r.key)
				req.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(req)
				if err != nil {
					failed.Add(1)
					continue
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
					failed.Add(1)
				}
				resp.Body.Close()
				served.Add(1)
			}
		})
	}
	for i := range 300 {
		if err := r.gateway.Reload(context.Background()); err != nil {
			t.Fatalf("reload %d: %v", i, err)
		}
	}
	close(stop)
	wg.Wait()
	if failed.Load() != 0 || served.Load() == 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), served.Load())
	}
	for i := 0; runtime.NumGoroutine() > before+8; i++ {
		if i == 100 {
			t.Fatalf("%d goroutines, were %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// SIGHUP ends an external log rotation: the audit file is opened again, even with a configuration
// that cannot be read.
func TestReloadOpensAnAuditFileThatWasMovedAgain(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	if a := r.post(call("1", "safe")); a.status != http.StatusOK {
		t.Fatal(a.status)
	}
	moved := r.auditPath() + ".1"
	if err := os.Rename(r.auditPath(), moved); err != nil {
		t.Fatal(err)
	}
	r.edit("default_action: deny", "default_action: dny")
	if err := r.gateway.Reload(context.Background()); err == nil {
		t.Error("a wrong configuration was accepted")
	}
	if a := r.post(call("2", "safe")); a.status != http.StatusOK {
		t.Errorf("after the reload: %d %s", a.status, a.body)
	}
	old, err := os.ReadFile(moved)
	if err != nil || bytes.Count(old, []byte(`"tool":"safe"`)) != 1 {
		t.Errorf("the file that was moved: %v %s", err, old)
	}
	fresh, err := os.ReadFile(r.auditPath())
	if err != nil || bytes.Count(fresh, []byte(`"tool":"safe"`)) != 1 || !bytes.Contains(fresh, []byte(`"event":"continue"`)) {
		t.Errorf("the new file: %v %s", err, fresh)
	}
}

// The reason why a key was refused is logged at level debug, with the request id, and is not in
// the response.
func TestTheLogHasWhyAKeyWasRefused(t *testing.T) {
	logs := &syncBuffer{}
	r := newRigWith(t, basic(newUpstream(t, echo).URL), func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	unknown, err := auth.NewKey("nobody")
	if err != nil {
		t.Fatal(err)
	}
	for presented, why := range map[string]string{unknown: "no entry with the id of the key", "nothing": "none of the hashes"} {
		header := []string{"Authorization", "Bearer " + presented}
		a := r.do(http.MethodPost, r.url, call("1", "safe"), header...)
		if a.status != http.StatusUnauthorized || strings.Contains(a.body, why) || strings.Contains(a.body, "nobody") {
			t.Errorf("%q: %d %s", presented, a.status, a.body)
		}
		if !strings.Contains(logs.String(), why) {
			t.Errorf("the log lacks %q:\n%s", why, logs.String())
		}
		if strings.Contains(logs.String(), presented) {
			t.Errorf("the log holds the key:\n%s", logs.String())
		}
	}
}
