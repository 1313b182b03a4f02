package daemon

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"

	"svc/test/certtest"
)

// served connects and returns the certificate and the protocol.
func served(t *testing.T, addr string) (serial int64, proto string) {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	state := conn.ConnectionState()
	return state.PeerCertificates[0].SerialNumber.Int64(), state.NegotiatedProtocol
}

// serving runs a daemon over TLS with a certificate; stop ends it.
func serving(t *testing.T, pair certtest.Pair) (addr net.Addr, cert *Certificate, stop func()) {
	t.Helper()
	cert, err := LoadCertificate(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	d := New(Options{Signals: signals})
	if addr, err = d.Listen("test", "127.0.0.1:0", http.HandlerFunc(ok), cert.TLSConfig()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- d.Run(t.Context()) }()
	return addr, cert, func() {
		t.Helper()
		signals <- syscall.SIGTERM
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestCertificateReload(t *testing.T) {
	ca := certtest.New(t, t.TempDir(), "ca")
	issue := func(serial int64) certtest.Pair {
		return ca.Issue("server", func(c *x509.Certificate) { c.SerialNumber = big.NewInt(serial) })
	}
	pair := issue(1)
	addr, cert, stop := serving(t, pair)

	if serial, proto := served(t, addr.String()); serial != 1 || proto != "h2" {
		t.Errorf("got serial %d over %q, want 1 over h2", serial, proto)
	}
	issue(2)
	if err := cert.Reload(); err != nil {
		t.Fatal(err)
	}
	if serial, _ := served(t, addr.String()); serial != 2 {
		t.Errorf("after the reload: serial %d, want 2", serial)
	}
	if err := os.WriteFile(pair.CertFile, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cert.Reload(); err == nil {
		t.Error("a broken certificate was accepted")
	}
	if serial, _ := served(t, addr.String()); serial != 2 {
		t.Errorf("after a broken reload: serial %d, want 2 still", serial)
	}
	stop()
}

func TestHTTP2Serves(t *testing.T) {
	ca := certtest.New(t, t.TempDir(), "ca")
	addr, _, stop := serving(t, ca.Pair)
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}
	resp, err := (&http.Client{Transport: tr}).Post(BaseURL(addr, true), "text/plain", bytes.NewReader([]byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != 200 {
		t.Errorf("got %s %d, want HTTP/2 200", resp.Proto, resp.StatusCode)
	}
	tr.CloseIdleConnections()
	stop()
}
