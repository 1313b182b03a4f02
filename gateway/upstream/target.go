package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"svc/gateway/http1"
	"svc/gateway/mcp"
)

const (
	// dialTimeout bounds the time to connect, including TLS, below the first-byte
	// timeout.
	dialTimeout = 10 * time.Second
	// maxRequestHead bounds the header that is sent.
	maxRequestHead = 1 << 20
	// gatherBytes is the size up to which a body is copied after its header and written
	// with it; a larger body is passed to the kernel without a copy.
	gatherBytes = 16 << 10
)

// target is the destination of requests and the constant part of their headers.
type target struct {
	address string
	tls     *tls.Config // nil for plain http
	dialer  net.Dialer
	// head is everything between the method and the fields of the request.
	head   string
	static []string // names of the configured fields
}

func newTarget(cfg *Config) (target, error) {
	u, err := parseURL(cfg.URL)
	if err != nil {
		return target{}, fmt.Errorf("url %w", err)
	}
	t := target{
		address: address(u),
		dialer: net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3,
		}},
	}
	var b strings.Builder
	fmt.Fprintf(&b, " %s HTTP/1.1\r\nHost: %s\r\nAccept-Encoding: identity\r\n", u.RequestURI(), u.Host)
	for name, value := range cfg.Headers {
		if !validName(name) || !validValue(value) || mcp.IsFraming(name) {
			return target{}, fmt.Errorf("header %q cannot be sent", name)
		}
		t.static = append(t.static, name)
	}
	slices.Sort(t.static)
	for _, name := range t.static {
		fmt.Fprintf(&b, "%s: %s\r\n", name, cfg.Headers[name])
	}
	t.head = b.String()
	if u.Scheme == "https" {
		t.tls, err = tlsConfig(&cfg.TLS, u.Hostname())
	}
	return t, err
}

func tlsConfig(cfg *TLSConfig, host string) (*tls.Config, error) {
	c := &tls.Config{
		ServerName:         host,
		NextProtos:         []string{"http/1.1"},
		MinVersion:         tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(32),
	}
	if cfg.ServerName != "" {
		c.ServerName = cfg.ServerName
	}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		if c.RootCAs, err = x509.SystemCertPool(); err != nil {
			c.RootCAs = x509.NewCertPool()
		}
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: %s holds no certificate", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" || cfg.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// dial makes a connection; the name is resolved each time. secured is nil for plain http,
// else the layer below TLS.
func (t *target) dial(ctx context.Context) (nc, raw net.Conn, secured *closeNotifyConn, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err = t.dialer.DialContext(ctx, "tcp", t.address)
	if err != nil || t.tls == nil {
		return raw, raw, nil, err
	}
	secured = &closeNotifyConn{Conn: http1.NewConn(raw)}
	layer := tls.Client(secured, t.tls)
	if err := layer.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, nil, nil, &handshakeError{err}
	}
	if p := layer.ConnectionState().NegotiatedProtocol; p != "" && p != "http/1.1" {
		raw.Close()
		return nil, nil, nil, &handshakeError{fmt.Errorf("upstream chose protocol %.20q, not http/1.1", p)}
	}
	return layer, raw, secured, nil
}

// handshakeError is a TLS handshake that failed.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// closeNotifyConn is a connection below a TLS layer. It detects an end of the connection
// without the close_notify alert of TLS. crypto/tls accepts such an end between two
// records, but a third party may have caused it, and a body that ends with the connection
// would be truncated without an error.
type closeNotifyConn struct {
	net.Conn
	ended bool // the connection ended, not only what TLS carries
}

func (s *closeNotifyConn) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n == 0 && err == io.EOF {
		s.ended = true
	}
	return n, err
}

// writeBuffer holds the head of a request, followed by a small body.
type writeBuffer struct {
	b []byte
	// gathered is set when b contains the body too.
	gathered bool
}

// writeBuffers is a pool of memory, not of state.
var writeBuffers = sync.Pool{New: func() any { return &writeBuffer{b: make([]byte, 0, 4<<10)} }}

func getWriteBuffer() *writeBuffer { return writeBuffers.Get().(*writeBuffer) }

func putWriteBuffer(w *writeBuffer) {
	if cap(w.b) <= 64<<10 {
		http1.Released(w.b)
		w.b, w.gathered = w.b[:0], false
		writeBuffers.Put(w)
	}
}

// appendRequest appends the head of the request to w, and the body when it is small.
func (t *target) appendRequest(w *writeBuffer, req *HTTPRequest) error {
	if !validName(req.Method) || len(req.Method) > 32 || req.Method == "HEAD" || req.Method == "CONNECT" {
		return fmt.Errorf("%w: method %.40q", ErrInvalidRequest, req.Method)
	}
	b := append(w.b[:0], req.Method...)
	b = append(b, t.head...)
	for i := range req.Header {
		f := &req.Header[i]
		if !validName(f.Name) {
			return fmt.Errorf("%w: %.40q is not a header name", ErrInvalidRequest, f.Name)
		}
		if !validValue(f.Value) {
			return fmt.Errorf("%w: header %.40s holds a line break or another control character", ErrInvalidRequest, f.Name)
		}
		if mcp.IsFraming(f.Name) || t.sets(f.Name) {
			continue
		}
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = append(b, f.Value...)
		b = append(b, "\r\n"...)
	}
	if len(req.Body) > 0 || req.Method == "POST" || req.Method == "PUT" || req.Method == "PATCH" {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(req.Body)), 10)
		b = append(b, "\r\n"...)
	}
	b = append(b, "\r\n"...)
	if len(b) > maxRequestHead {
		return fmt.Errorf("%w: the header is larger than %d bytes", ErrInvalidRequest, maxRequestHead)
	}
	if len(req.Body) <= gatherBytes {
		b = append(b, req.Body...)
		w.gathered = true
	}
	w.b = b
	return nil
}

func (t *target) sets(name string) bool {
	for _, s := range t.static {
		if mcp.EqualName(s, name) {
			return true
		}
	}
	return false
}

// errNoAnswer marks a connection that ended before the first byte of a response.
var errNoAnswer = errors.New("the connection ended before the response")
