package daemon

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// writeCertificate writes a self-signed certificate for loopback.
func writeCertificate(t *testing.T, dir string, serial int64) (cert, key string, leaf *x509.Certificate) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: "svc test"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(path, kind string, b []byte) {
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(cert, "CERTIFICATE", der)
	write(key, "PRIVATE KEY", keyDER)
	leaf, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, leaf
}

// served connects and returns what certificate and protocol it gets.
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

func TestCertificateReload(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, _ := writeCertificate(t, dir, 1)
	cert, err := LoadCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	d := New(Options{Signals: signals})
	addr, err := d.Listen("test", "127.0.0.1:0", http.HandlerFunc(ok), cert.TLSConfig())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- d.Run(t.Context()) }()

	if serial, proto := served(t, addr.String()); serial != 1 || proto != "h2" {
		t.Errorf("got serial %d over %q, want 1 over h2", serial, proto)
	}
	writeCertificate(t, dir, 2)
	if err := cert.Reload(); err != nil {
		t.Fatal(err)
	}
	if serial, _ := served(t, addr.String()); serial != 2 {
		t.Errorf("after the reload: serial %d, want 2", serial)
	}
	if err := os.WriteFile(certFile, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cert.Reload(); err == nil {
		t.Error("a broken certificate was accepted")
	}
	if serial, _ := served(t, addr.String()); serial != 2 {
		t.Errorf("after a broken reload: serial %d, want 2 still", serial)
	}
	signals <- syscall.SIGTERM
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestHTTP2Serves(t *testing.T) {
	certFile, keyFile, leaf := writeCertificate(t, t.TempDir(), 1)
	cert, err := LoadCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	d := New(Options{Signals: signals})
	addr, err := d.Listen("test", "127.0.0.1:0", http.HandlerFunc(ok), cert.TLSConfig())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- d.Run(t.Context()) }()
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}
	resp, err := (&http.Client{Transport: tr}).Post(BaseURL(addr, true), "text/plain", bytes.NewReader([]byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != 200 {
		t.Errorf("got %s %d, want HTTP/2 200", resp.Proto, resp.StatusCode)
	}
	tr.CloseIdleConnections()
	signals <- syscall.SIGTERM
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
