package upstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates for tests and writes them as files.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.sign(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes a certificate and writes name.pem and name.key.
func (a *authority) sign(t *testing.T, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for ext, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(a.file(name+ext), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// serveTLS starts an HTTPS upstream with a certificate for names.
func (a *authority) serveTLS(t *testing.T, mutual bool, names ...string) string {
	t.Helper()
	template := &x509.Certificate{DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if len(names) == 0 {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	a.sign(t, "server", template)
	pair, err := tls.LoadX509KeyPair(a.file("server.pem"), a.file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 1 {
			t.Errorf("protocol %s", r.Proto)
		}
		_, _ = w.Write(body)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	if mutual {
		s.TLS.ClientAuth = tls.RequireAndVerifyClientCert
		s.TLS.ClientCAs = x509.NewCertPool()
		s.TLS.ClientCAs.AddCert(a.cert)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestTLS(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	a.sign(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	other.sign(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	tests := []struct {
		name   string
		mutual bool
		names  []string
		tls    TLSConfig
		kind   error
	}{
		{name: "trusted authority", tls: TLSConfig{CAFile: a.file("ca.pem")}},
		{name: "unknown authority", kind: ErrUnreachable},
		{name: "wrong authority", tls: TLSConfig{CAFile: other.file("ca.pem")}, kind: ErrUnreachable},
		{name: "certificate of another name", names: []string{"tools.example"}, tls: TLSConfig{CAFile: a.file("ca.pem")}, kind: ErrUnreachable},
		{name: "server_name", names: []string{"tools.example"}, tls: TLSConfig{CAFile: a.file("ca.pem"), ServerName: "tools.example"}},
		{name: "client certificate", mutual: true, tls: TLSConfig{CAFile: a.file("ca.pem"), CertFile: a.file("client.pem"), KeyFile: a.file("client.key")}},
		{name: "no client certificate", mutual: true, tls: TLSConfig{CAFile: a.file("ca.pem")}, kind: ErrUnreachable},
		{name: "client certificate of another authority", mutual: true, tls: TLSConfig{CAFile: a.file("ca.pem"), CertFile: other.file("client.pem"), KeyFile: other.file("client.key")}, kind: ErrUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := a.serveTLS(t, tt.mutual, tt.names...)
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
// when the upstream says so.
func TestTLSEndWithoutNotice(t *testing.T) {
	a := newAuthority(t)
	a.sign(t, "server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	pair, err := tls.LoadX509KeyPair(a.file("server.pem"), a.file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, notice := range []bool{true, false} {
		p := newPeer(t, func(_ int, c *peerConn) {
			s := tls.Server(c.Conn, &tls.Config{Certificates: []tls.Certificate{pair}})
			_, _ = s.Read(make([]byte, 1<<10))
			_, _ = io.WriteString(s, "HTTP/1.1 200 OK\r\n\r\nhel")
			if notice {
				_ = s.CloseWrite()
			}
		})
		c := clientOf(t, Config{Name: "secure", URL: "https" + p.url()[4:], TLS: TLSConfig{CAFile: a.file("ca.pem")}, Timeout: 5 * time.Second})
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
	a := newAuthority(t)
	a.sign(t, "client", &x509.Certificate{})
	empty := a.file("empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]TLSConfig{
		"no such file":      {CAFile: "/does/not/exist.pem"},
		"no certificate":    {CAFile: empty},
		"key does not fit":  {CertFile: a.file("client.pem"), KeyFile: a.file("ca.key")},
		"key is no key":     {CertFile: a.file("client.pem"), KeyFile: empty},
		"no key":            {CertFile: a.file("client.pem")},
		"no cert for a key": {KeyFile: a.file("client.key")},
	} {
		if c, err := NewClient(Config{Name: "x", URL: "https://127.0.0.1/", TLS: cfg}); err == nil {
			c.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}
