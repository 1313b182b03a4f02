package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"svc/gateway/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is an upstream of raw TCP connections, each handled by the test.
type peer struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

// newPeer accepts connections and hands each, with its number from 0, to handle.
// The connection is closed when handle returns.
func newPeer(t testing.TB, handle func(n int, c *peerConn)) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{Listener: l}
	p.wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns = append(p.conns, c)
			p.mu.Unlock()
			p.wg.Go(func() {
				defer c.Close()
				handle(n, &peerConn{Conn: c, r: bufio.NewReader(c)})
			})
		}
	})
	t.Cleanup(p.stop)
	return p
}

func (p *peer) stop() {
	p.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *peer) accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func (p *peer) url() string { return "http://" + p.Addr().String() + "/mcp" }

// peerConn is one connection as the upstream sees it.
type peerConn struct {
	net.Conn
	r *bufio.Reader
}

// request reads one request; false when there is none.
func (c *peerConn) request() (*http.Request, []byte, bool) {
	req, err := http.ReadRequest(c.r)
	if err != nil {
		return nil, nil, false
	}
	body, err := io.ReadAll(req.Body)
	return req, body, err == nil
}

func (c *peerConn) send(s string) { _, _ = io.WriteString(c.Conn, s) }

// wait blocks until the client has gone.
func (c *peerConn) wait() { _, _ = io.Copy(io.Discard, c.r) }

// reset makes the close that follows an RST.
func (c *peerConn) reset() { _ = c.Conn.(*net.TCPConn).SetLinger(0) }

// serving is a peer that hands each request of a connection to serve.
func serving(t testing.TB, serve func(c *peerConn, req *http.Request, body []byte)) *peer {
	t.Helper()
	return newPeer(t, func(_ int, c *peerConn) {
		for {
			req, body, ok := c.request()
			if !ok {
				return
			}
			serve(c, req, body)
		}
	})
}

// answering is a peer that answers each request with the same bytes.
func answering(t testing.TB, answer string) *peer {
	t.Helper()
	return serving(t, func(c *peerConn, _ *http.Request, _ []byte) { c.send(answer) })
}

func newTestClient(t testing.TB, url string, opts ...option) *Client {
	t.Helper()
	return clientOf(t, Config{Name: "peer", URL: url, Timeout: 5 * time.Second, MaxResponseBytes: 1 << 20}, opts...)
}

func clientOf(t testing.TB, cfg Config, opts ...option) *Client {
	t.Helper()
	c, err := NewClient(cfg, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.Drain(ctx); err != nil {
			t.Errorf("connections are still in use at the end: %v, %+v", err, c.Stats())
		}
	})
	return c
}

// do sends a request and reads the answer to its end.
func do(c *Client, req *HTTPRequest) (*HTTPResponse, string, error) {
	resp, err := c.Do(context.Background(), req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func post(body string) *HTTPRequest {
	return &HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(body)}
}

// wantKind checks that err is an *Error of the kind, or nil when kind is nil.
func wantKind(t *testing.T, err, kind error) {
	t.Helper()
	if kind == nil {
		if err != nil {
			t.Errorf("error %v, want none", err)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind || !errors.Is(err, kind) {
		t.Errorf("error %v, want an *Error of kind %v", err, kind)
	}
	if err != nil && strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("error %q is not one line", err)
	}
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 5 s for: %s", what)
		}
	}
}
