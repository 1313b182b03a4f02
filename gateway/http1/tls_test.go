package http1

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// certificate returns a self-signed certificate for loopback, valid for servers and clients.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "caller"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// who responds with the server that runs the handler, the protocol, and the client's name.
func who(w http.ResponseWriter, r *http.Request) {
	name := "nobody"
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		name = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	fmt.Fprintf(w, "front=%v %s %v %s", byFront(w), r.Proto, r.TLS != nil, name)
}

func startTLS(t *testing.T) (*running, *tls.Config) {
	cert, pool := certificate(t)
	r := start(t, who, func(o *Options) {
		o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool,
			NextProtos: []string{"h2", "http/1.1"}}
		p := new(http.Protocols)
		p.SetHTTP1(true)
		p.SetHTTP2(true)
		o.Fallback.Protocols = p
		o.Fallback.ReadHeaderTimeout = 300 * time.Millisecond
	})
	return r, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}
}

func TestTLS(t *testing.T) {
	r, conf := startTLS(t)
	c := dialTLS(t, r.addr, conf)
	for range 2 {
		c.send("%s", post("x"))
		if _, body := c.answer(); body != "front=true HTTP/1.1 true caller" {
			t.Errorf("%q", body)
		}
	}
	// A connection that is handed over keeps its TLS state.
	c.send("GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, body := c.answer(); body != "front=false HTTP/1.1 true caller" {
		t.Errorf("handed over: %q", body)
	}
	anonymous := conf.Clone()
	anonymous.Certificates = nil
	c = dialTLS(t, r.addr, anonymous)
	c.send("%s", post("x"))
	if _, body := c.answer(); body != "front=true HTTP/1.1 true nobody" {
		t.Errorf("%q", body)
	}
}

func TestTLSLargeAnswer(t *testing.T) {
	cert, pool := certificate(t)
	want := strings.Repeat("0123456789", 50_000)
	r := start(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(want)))
		io.WriteString(w, want)
	}, func(o *Options) { o.TLS = &tls.Config{Certificates: []tls.Certificate{cert}} })
	c := dialTLS(t, r.addr, &tls.Config{RootCAs: pool})
	c.send("%s", post("x"))
	if _, body := c.answer(); body != want {
		t.Errorf("%d bytes", len(body))
	}
}

func TestHTTP2IsHandedOver(t *testing.T) {
	r, conf := startTLS(t)
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: conf}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Post("https://"+r.addr+"/mcp", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "front=false HTTP/2.0 true caller" {
		t.Errorf("%q %v", b, err)
	}
}

func TestTLSHandshakeThatFails(t *testing.T) {
	r, _ := startTLS(t)
	t.Run("plain HTTP", func(t *testing.T) {
		c := dial(t, r.addr)
		c.send("%s", post("x"))
		b, _ := io.ReadAll(c.r)
		if !strings.HasPrefix(string(b), "HTTP/1.0 400 ") || !strings.Contains(r.log.String(), "client sent an HTTP request to an HTTPS server") {
			t.Errorf("%q, logged %q", b, r.log.String())
		}
	})
	t.Run("certificate of nobody", func(t *testing.T) {
		stranger, _ := certificate(t)
		c, err := tls.Dial("tcp", r.addr, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{stranger}})
		if err == nil {
			_, err = c.Read(make([]byte, 1))
			c.Close()
		}
		if err == nil || !strings.Contains(r.log.String(), "TLS handshake error from 127.0.0.1") {
			t.Errorf("%v, logged %q", err, r.log.String())
		}
	})
	t.Run("silence", func(t *testing.T) {
		began := time.Now()
		c := dial(t, r.addr)
		c.ended()
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("ended after %v", d)
		}
	})
}

// A client that begins no handshake, or only a part of one, is disconnected like one whose header
// does not arrive.
func TestSlowTLSHandshakeEnds(t *testing.T) {
	r, _ := startTLS(t)
	for _, text := range []string{"", "\x16\x03\x01\x02\x00\x01\x00\x01"} {
		c := dial(t, r.addr)
		c.send("%s", text)
		began := time.Now()
		_, _ = io.Copy(io.Discard, c.r) // a reset is accepted too
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("cut after %v", took)
		}
	}
}
