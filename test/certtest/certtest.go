// Package certtest issues certificates for tests: from a test's own authority,
// for 127.0.0.1, for servers and clients, valid for an hour.
package certtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Pair is a certificate and its key, in memory and in two PEM files.
type Pair struct {
	tls.Certificate
	CertFile, KeyFile string
}

// Authority signs certificates. Its own certificate is valid for 127.0.0.1 too,
// as a self-signed one.
type Authority struct {
	Pair
	t   testing.TB
	dir string
}

// New creates an authority whose files are in dir: NAME.pem and NAME.key, like
// those of the certificates that it issues.
func New(t testing.TB, dir, name string) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: dir}
	a.Pair = a.Issue(name, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid = true, true
		c.KeyUsage |= x509.KeyUsageCertSign
	})
	return a
}

// Pool returns a pool that contains only the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Leaf)
	return pool
}

// Issue issues a certificate with the common name name. change modifies it before
// it is signed; a second one with the same name replaces the first one's files.
func (a *Authority) Issue(name string, change ...func(*x509.Certificate)) Pair {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, c := range change {
		c(template)
	}
	parent, signer := a.Leaf, a.PrivateKey
	if parent == nil {
		parent, signer = template, crypto.PrivateKey(key)
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	p := Pair{CertFile: filepath.Join(a.dir, name+".pem"), KeyFile: filepath.Join(a.dir, name+".key")}
	for file, block := range map[string]*pem.Block{p.CertFile: {Type: "CERTIFICATE", Bytes: cert}, p.KeyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	if p.Certificate, err = tls.LoadX509KeyPair(p.CertFile, p.KeyFile); err != nil {
		a.t.Fatal(err)
	}
	return p
}
