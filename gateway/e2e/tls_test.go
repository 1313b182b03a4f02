package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"svc/gateway/http1"
	"svc/test/certtest"
)

// serveFront serves the gateway over TLS as the daemon does, and returns its address.
func serveFront(t *testing.T, r *rig) string {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	conf := r.gateway.TLSConfig()
	conf.NextProtos = []string{"h2", "http/1.1"}
	server := http1.NewServer(http1.Options{Paths: []string{"/mcp"}, Handler: r.gateway, TLS: conf,
		Fallback: &http.Server{Handler: r.gateway, Protocols: &protocols}})
	r.gateway.OnClientCA(server.Recheck)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return ln.Addr().String()
}

// A reload that removes a CA closes the open connections of its clients, in gateway/http1, in
// net/http and over HTTP/2. Those of other CAs stay open, also when client_ca has not changed.
func TestConnectionsEndWithTheirAuthority(t *testing.T) {
	ca, partner := certtest.New(t, t.TempDir(), "ca"), certtest.New(t, t.TempDir(), "ca")
	pemOf := func(a *certtest.Authority) []byte {
		text, err := os.ReadFile(a.CertFile)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	bundle := t.TempDir() + "/clients.pem"
	write := func(authorities ...*certtest.Authority) {
		t.Helper()
		var text []byte
		for _, a := range authorities {
			text = append(text, pemOf(a)...)
		}
		if err := os.WriteFile(bundle, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ca, partner)
	cert := ca.Issue("server")
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL)+fmt.Sprintf("tls: {cert_file: %s, key_file: %s, client_ca: %s}\n", cert.CertFile, cert.KeyFile, bundle))
	addr := serveFront(t, r)
	body := call("1", "safe")
	header := "Host: 127.0.0.1\r\nAuthorization: Bearer " + r.key + "\r\nContent-Type: application/json\r\n"
	config := func(a *certtest.Authority) *tls.Config {
		pair := a.Issue("client").Certificate
		return &tls.Config{RootCAs: ca.Pool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}
	}
	type conn struct {
		name string
		by   *certtest.Authority
		ask  func() error
	}
	var conns []conn
	for _, by := range []*certtest.Authority{ca, partner} {
		for name, request := range map[string]string{
			"front":    "POST /mcp HTTP/1.1\r\n" + header + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
			"net/http": "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		} {
			c, err := tls.Dial("tcp", addr, config(by))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(c)
			conns = append(conns, conn{name, by, func() error {
				if _, err := c.Write([]byte(request)); err != nil {
					return err
				}
				resp, err := http.ReadResponse(reader, nil)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
					return fmt.Errorf("%s, %v", resp.Status, err)
				}
				return nil
			}})
		}
		dials := 0
		tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: config(by), DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials > 1 {
				return nil, fmt.Errorf("the connection was closed")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}
		defer tr.CloseIdleConnections()
		conns = append(conns, conn{"HTTP/2", by, func() error {
			req, err := http.NewRequest(http.MethodPost, "https://"+addr+"/mcp", strings.NewReader(body))
			if err != nil {
				return err
			}
			req.Header.Set("Authorization", "Bearer "+r.key)
			req.Header.Set("Content-Type", "application/json")
			resp, err := (&http.Client{Transport: tr}).Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
				return fmt.Errorf("%s %s", resp.Proto, resp.Status)
			}
			return nil
		}})
	}
	expect := func(when string, ok func(c conn) bool) {
		t.Helper()
		for _, c := range conns {
			if err := c.ask(); (err == nil) != ok(c) {
				t.Errorf("%s: %s of the partner %t: %v", when, c.name, c.by == partner, err)
			}
		}
	}
	all := func(conn) bool { return true }
	reload := func() {
		t.Helper()
		if err := r.gateway.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expect("at first", all)
	reload()
	expect("after a reload that changes nothing", all)
	write(ca)
	reload()
	expect("without the partner", func(c conn) bool { return c.by == ca })
	r.edit(", client_ca: "+bundle, "")
	reload()
	expect("without client_ca", func(c conn) bool { return c.by == ca })
}

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
