package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"svc/test/certtest"
)

// serveTLS starts an HTTPS upstream with a certificate for names.
func serveTLS(t *testing.T, a *certtest.Authority, mutual bool, names ...string) string {
	t.Helper()
	cert := a.Issue("server", func(c *x509.Certificate) {
		if len(names) > 0 {
			c.IPAddresses, c.DNSNames = nil, names
		}
	})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 1 {
			t.Errorf("protocol %s", r.Proto)
		}
		_, _ = w.Write(body)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert.Certificate}}
	if mutual {
		s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
		s.TLS.ClientCAs = a.Pool()
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestTLS(t *testing.T) {
	a, other := certtest.New(t, t.TempDir(), "ca"), certtest.New(t, t.TempDir(), "ca")
	client, stranger := a.Issue("client"), other.Issue("client")
	tests := []struct {
		name   string
		mutual bool
		names  []string
		tls    TLSConfig
		kind   error
	}{
		{name: "trusted authority", tls: TLSConfig{CAFile: a.CertFile}},
		{name: "unknown authority", kind: ErrUnreachable},
		{name: "wrong authority", tls: TLSConfig{CAFile: other.CertFile}, kind: ErrUnreachable},
		{name: "certificate of another name", names: []string{"tools.example"}, tls: TLSConfig{CAFile: a.CertFile}, kind: ErrUnreachable},
		{name: "server_name", names: []string{"tools.example"}, tls: TLSConfig{CAFile: a.CertFile, ServerName: "tools.example"}},
		{name: "client certificate", mutual: true, tls: TLSConfig{CAFile: a.CertFile, CertFile: client.CertFile, KeyFile: client.KeyFile}},
		{name: "no client certificate", mutual: true, tls: TLSConfig{CAFile: a.CertFile}, kind: ErrUnreachable},
		{name: "client certificate of another authority", mutual: true, tls: TLSConfig{CAFile: a.CertFile, CertFile: stranger.CertFile, KeyFile: stranger.KeyFile}, kind: ErrUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := serveTLS(t, a, tt.mutual, tt.names...)
			c := clientOf(t, Config{Name: "secure", URL: url + "/mcp", TLS: tt.tls, Timeout: 5 * time.Second})
			for range 3 {
				body := string(make([]byte, 100<<10))
				_, got, err := do(c, post(body))
				wantKind(t, err, tt.kind)
				if err == nil && got != body {
					t.Errorf("%d bytes came back otherwise", len(got))
				}
			}
			if tt.kind == nil && c.Stats().Dials != 1 {
				t.Errorf("%+v, want one connection", c.Stats())
			}
		})
	}
}

// TestTLSEndWithoutNotice: a body that ends with the connection is complete only
// if the upstream sent close_notify.
func TestTLSEndWithoutNotice(t *testing.T) {
	a := certtest.New(t, t.TempDir(), "ca")
	server := a.Issue("server")
	for _, notice := range []bool{true, false} {
		p := newPeer(t, func(_ int, c *peerConn) {
			s := tls.Server(c.Conn, &tls.Config{Certificates: []tls.Certificate{server.Certificate}})
			_, _ = s.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(s, "HTTP/1.1 200 OK\r\n\r\nhel")
			if notice {
				_ = s.CloseWrite()
			}
		})
		c := clientOf(t, Config{Name: "secure", URL: "https" + p.url()[4:], TLS: TLSConfig{CAFile: a.CertFile}, Timeout: 5 * time.Second})
		_, body, err := do(c, post(`{}`))
		if body != "hel" {
			t.Errorf("body %q", body)
		}
		if notice {
			wantKind(t, err, nil)
		} else {
			wantKind(t, err, ErrUnreachable)
		}
	}
}

func TestTLSFiles(t *testing.T) {
	a := certtest.New(t, t.TempDir(), "ca")
	client := a.Issue("client")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]TLSConfig{
		"no such file":      {CAFile: "/does/not/exist.pem"},
		"no certificate":    {CAFile: empty},
		"key does not fit":  {CertFile: client.CertFile, KeyFile: a.KeyFile},
		"key is no key":     {CertFile: client.CertFile, KeyFile: empty},
		"no key":            {CertFile: client.CertFile},
		"no cert for a key": {KeyFile: client.KeyFile},
	} {
		if c, err := NewClient(Config{Name: "x", URL: "https://127.0.0.1/", TLS: cfg}); err == nil {
			c.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}
