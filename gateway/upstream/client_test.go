package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"svc/gateway/mcp"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestRequestOnTheWire(t *testing.T) {
	got := make(chan string, 1)
	p := newPeer(t, func(_ int, c *peerConn) {
		buf := make([]byte, 64<<10)
		n, _ := c.Read(buf) // one write of the client is one read here
		got <- string(buf[:n])
		c.send(okAnswer)
		c.wait()
	})
	c := clientOf(t, Config{
		Name: "peer", URL: p.url() + "?a=b", Timeout: time.Second,
		Headers: map[string]string{"Authorization": "Bearer of-the-upstream", "X-B": "2"},
	})
	req := &HTTPRequest{Method: "POST", Body: []byte(`{"a":1}`), Header: mcp.Header{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "authorization", Value: "Bearer of-the-client"}, // the configured value is sent
		{Name: "Host", Value: "evil.example"},
		{Name: "Content-Length", Value: "0"},
		{Name: "Transfer-Encoding", Value: "chunked"},
		{Name: "Connection", Value: "Upgrade, Content-Type"},
		{Name: "Accept-Encoding", Value: "gzip"},
		{Name: "Expect", Value: "100-continue"},
		{Name: "Accept", Value: "application/json, text/event-stream"},
	}}
	if _, _, err := do(c, req); err != nil {
		t.Fatal(err)
	}
	want := "POST /mcp?a=b HTTP/1.1\r\nHost: " + p.Addr().String() + "\r\nAccept-Encoding: identity\r\n" +
		"Authorization: Bearer of-the-upstream\r\nX-B: 2\r\nContent-Type: application/json\r\n" +
		"Accept: application/json, text/event-stream\r\nContent-Length: 7\r\n\r\n{\"a\":1}"
	if g := <-got; g != want {
		t.Errorf("sent\n%q, want\n%q", g, want)
	}
}

func TestGetAndDeleteHaveNoLength(t *testing.T) {
	p := serving(t, func(c *peerConn, req *http.Request, body []byte) {
		if req.Header.Get("Content-Length") != "" || len(body) != 0 {
			t.Errorf("%s has a length", req.Method)
		}
		c.send(okAnswer)
	})
	c := newTestClient(t, p.url())
	for _, method := range []string{"GET", "DELETE"} {
		if _, _, err := do(c, &HTTPRequest{Method: method}); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	tests := []struct {
		name string
		req  HTTPRequest
	}{
		{"line break in a value", HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "A", Value: "b\r\nC: d"}}}},
		{"line feed in a value", HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "A", Value: "b\nC: d"}}}},
		{"carriage return in a value", HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "A", Value: "b\rc"}}}},
		{"NUL in a value", HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "A", Value: "b\x00"}}}},
		{"DEL in a value", HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "A", Value: "b\x7f"}}}},
		{"line break in the value of a field that is skipped", HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "Host", Value: "b\r\nC: d"}}}},
		{"line break in a name", HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "A\r\nB", Value: "c"}}}},
		{"colon in a name", HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "A:", Value: "c"}}}},
		{"empty name", HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "", Value: "c"}}}},
		{"space in the method", HTTPRequest{Method: "POST /x"}},
		{"line break in the method", HTTPRequest{Method: "GET\r\n"}},
		{"no method", HTTPRequest{}},
		{"HEAD", HTTPRequest{Method: "HEAD"}},
		{"CONNECT", HTTPRequest{Method: "CONNECT"}},
		{"header of 2 MiB", HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "A", Value: strings.Repeat("x", 2<<20)}}}},
	}
	c := newTestClient(t, "http://127.0.0.1:1/")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := do(c, &tt.req)
			wantKind(t, err, ErrInvalidRequest)
			if s := c.Stats(); s.Dials != 0 || s.Open != 0 {
				t.Errorf("%+v, want no connection", s)
			}
		})
	}
}

func TestBodySizes(t *testing.T) {
	p := serving(t, func(c *peerConn, _ *http.Request, body []byte) {
		sum := 0
		for _, b := range body {
			sum += int(b)
		}
		c.send("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n" + string(append(make([]byte, 8), byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum), byte(len(body)>>24), byte(len(body)>>16), byte(len(body)>>8), byte(len(body)))))
	})
	c := newTestClient(t, p.url())
	for _, n := range []int{0, 1, gatherBytes - 1, gatherBytes, gatherBytes + 1, 100 << 10, 16 << 20} {
		body := bytes.Repeat([]byte{3}, n)
		_, got, err := do(c, post(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		want := string(append(make([]byte, 8), byte(3*n>>24), byte(3*n>>16), byte(3*n>>8), byte(3*n), byte(n>>24), byte(n>>16), byte(n>>8), byte(n)))
		if got != want {
			t.Errorf("%d bytes arrived otherwise", n)
		}
	}
	if n := p.accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// TestConnectionEnds ends the connection at one point, and checks the result. A
// request that may have had an effect is never sent again unless it is idempotent.
func TestConnectionEnds(t *testing.T) {
	type ending struct {
		name       string
		after      string // sent before the end
		method     string
		idempotent bool
		reused     bool // an exchange succeeded before on this connection
		reset      bool // RST instead of FIN
		requests   int32
		sent       bool
		kind       error
	}
	tests := []ending{
		{name: "fresh, before an answer", method: "POST", requests: 1, sent: true, kind: ErrUnreachable},
		{name: "fresh, before an answer, idempotent", method: "GET", requests: 1, sent: true, kind: ErrUnreachable},
		{name: "reused, a POST is not sent again", method: "POST", reused: true, requests: 1, sent: true, kind: ErrUnreachable},
		{name: "reused and reset, a POST is not sent again", method: "POST", reused: true, reset: true, requests: 1, sent: true, kind: ErrUnreachable},
		{name: "reused, an idempotent POST is sent again", method: "POST", idempotent: true, reused: true, requests: 2},
		{name: "reused and reset, an idempotent POST is sent again", method: "POST", idempotent: true, reused: true, reset: true, requests: 2},
		{name: "reused, GET is sent again", method: "GET", reused: true, requests: 2},
		{name: "reused, DELETE is sent again", method: "DELETE", reused: true, requests: 2},
		{name: "reused, after one byte of an answer", after: "H", method: "GET", reused: true, requests: 1, sent: true, kind: ErrUnreachable},
		{name: "reused, after an interim answer", after: "HTTP/1.1 100 Continue\r\n\r\n", method: "GET", reused: true, requests: 1, sent: true, kind: ErrUnreachable},
		{name: "within the header", after: "HTTP/1.1 200 OK\r\nContent-", method: "POST", requests: 1, sent: true, kind: ErrUnreachable},
		{name: "within the body", after: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", method: "POST", requests: 1, sent: true, kind: ErrUnreachable},
		{name: "within the body, by a reset", after: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", reset: true, method: "POST", requests: 1, sent: true, kind: ErrUnreachable},
		{name: "within a chunk", after: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", method: "POST", requests: 1, sent: true, kind: ErrUnreachable},
		{name: "between chunks", after: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", method: "POST", requests: 1, sent: true, kind: ErrUnreachable},
		{name: "after the last chunk, before the trailer ends", after: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\n", method: "POST", requests: 1, sent: true, kind: ErrUnreachable},
		{name: "unframed body by a reset", after: "HTTP/1.1 200 OK\r\n\r\nhel", reset: true, method: "POST", requests: 1, sent: true, kind: ErrUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var requests atomic.Int32
			p := newPeer(t, func(n int, c *peerConn) {
				if n == 0 && tt.reused {
					c.request()
					c.send(okAnswer)
				}
				for {
					if _, _, ok := c.request(); !ok {
						return
					}
					requests.Add(1)
					if n > 0 {
						c.send(okAnswer)
						continue
					}
					c.send(tt.after)
					if tt.reset {
						time.Sleep(5 * time.Millisecond) // so that the data arrives first
						c.reset()
					}
					return
				}
			})
			c := newTestClient(t, p.url())
			if tt.reused {
				if _, _, err := do(c, post(`{}`)); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err := do(c, &HTTPRequest{Method: tt.method, Idempotent: tt.idempotent})
			wantKind(t, err, tt.kind)
			if e := (*Error)(nil); errors.As(err, &e) && e.Sent != tt.sent {
				t.Errorf("Sent is %v, want %v", e.Sent, tt.sent)
			}
			if n := requests.Load(); n != tt.requests {
				t.Errorf("the upstream got the request %d times, want %d", n, tt.requests)
			}
		})
	}
}

// TestIdleConnectionThatEndedIsNotUsed: an upstream that closed an idle connection
// does not cause the failure of a request, not even of a POST.
func TestIdleConnectionThatEndedIsNotUsed(t *testing.T) {
	tests := []struct {
		name string
		idle func(c *peerConn)
	}{
		{"closed", func(c *peerConn) { c.Close() }},
		{"reset", func(c *peerConn) { c.reset(); c.Close() }},
		{"half closed", func(c *peerConn) { _ = c.Conn.(*net.TCPConn).CloseWrite(); c.wait() }},
		{"an answer nobody asked for", func(c *peerConn) { c.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"); c.wait() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			idle := make(chan struct{})
			p := newPeer(t, func(n int, c *peerConn) {
				c.request()
				c.send(okAnswer)
				if n == 0 {
					<-idle
					tt.idle(c)
					return
				}
				c.wait()
			})
			c := newTestClient(t, p.url())
			if _, _, err := do(c, post(`1`)); err != nil {
				t.Fatal(err)
			}
			cn := c.pool.idle[0]
			close(idle)
			eventually(t, "the client's kernel to know", func() bool { return !newProbe(cn.raw).idle() })
			_, body, err := do(c, post(`2`))
			if err != nil || body != "ok" {
				t.Errorf("answer %q, %v", body, err)
			}
		})
	}
}

// A connection that was idle for too long is not used, even if its peer still has
// it open: the peer may be about to close it.
func TestIdleConnectionThatIsTooOldIsNotUsed(t *testing.T) {
	p := newPeer(t, func(_ int, c *peerConn) {
		c.request()
		c.send(okAnswer)
		c.wait()
	})
	c := newTestClient(t, p.url())
	if _, _, err := do(c, post(`1`)); err != nil {
		t.Fatal(err)
	}
	c.pool.mu.Lock()
	c.pool.idle[0].idleSince -= defaultIdleTimeout // before the reaper runs
	c.pool.mu.Unlock()
	if _, body, err := do(c, post(`2`)); err != nil || body != "ok" {
		t.Errorf("answer %q, %v", body, err)
	}
	if n := c.Stats().Dials; n != 2 {
		t.Errorf("%d connections were made, want 2", n)
	}
}

func TestTimeouts(t *testing.T) {
	const short = 40 * time.Millisecond
	tests := []struct {
		name     string
		cfg      time.Duration
		timeouts *Timeouts
		answer   []string // parts, sent 100 ms apart
		kind     error
		body     string
	}{
		{"no first byte", short, nil, []string{"", okAnswer}, ErrTimeout, ""},
		{"between the bytes of a header", short, nil, []string{"HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n\r\nok"}, ErrTimeout, ""},
		{"between the bytes of a body", short, nil, []string{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", "k"}, ErrTimeout, "o"},
		{"between chunks", short, nil, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n", "1\r\nk\r\n0\r\n\r\n"}, ErrTimeout, "o"},
		{"interim responses do not extend it", 250 * time.Millisecond, nil, []string{"", "HTTP/1.1 102 P\r\n\r\n", "HTTP/1.1 102 P\r\n\r\n", "HTTP/1.1 102 P\r\n\r\n", "HTTP/1.1 102 P\r\n\r\n", okAnswer}, ErrTimeout, ""},
		{"more time for this request", short, &Timeouts{FirstByte: 5 * time.Second, Between: 5 * time.Second}, []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", "k"}, nil, "ok"},
		{"no bound for this request", short, &Timeouts{}, []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", "k"}, nil, "ok"},
		{"less time for this request", 5 * time.Second, &Timeouts{FirstByte: short, Between: time.Second}, []string{"", okAnswer}, ErrTimeout, ""},
		{"a wait after each byte is no total", 150 * time.Millisecond, nil, []string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na", "b", "c"}, nil, "abc"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, func(_ int, c *peerConn) {
				c.request()
				for i, part := range tt.answer {
					if i > 0 {
						time.Sleep(100 * time.Millisecond)
					}
					c.send(part)
				}
				c.wait()
			})
			c := clientOf(t, Config{Name: "slow", URL: p.url(), Timeout: tt.cfg})
			req := post(`{}`)
			req.Timeouts = tt.timeouts
			_, body, err := do(c, req)
			wantKind(t, err, tt.kind)
			if body != tt.body {
				t.Errorf("body %q, want %q", body, tt.body)
			}
			if tt.kind != nil && c.Stats().Open != 0 {
				t.Errorf("%+v, want the connection closed", c.Stats())
			}
		})
	}
}

// TestTimeoutsOfOneRequestDoNotReachTheNext: timers stay set between requests.
func TestTimeoutsOfOneRequestDoNotReachTheNext(t *testing.T) {
	p := serving(t, func(c *peerConn, _ *http.Request, body []byte) {
		if string(body) == "slow" {
			time.Sleep(150 * time.Millisecond)
		}
		c.send(okAnswer)
	})
	c := newTestClient(t, p.url())
	for range 2 {
		quick := post("quick")
		quick.Timeouts = &Timeouts{FirstByte: 50 * time.Millisecond, Between: 50 * time.Millisecond}
		for _, req := range []*HTTPRequest{quick, post("slow")} {
			if _, _, err := do(c, req); err != nil {
				t.Fatal(err)
			}
		}
		unbound := post("slow")
		unbound.Timeouts = &Timeouts{}
		if _, _, err := do(c, unbound); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestUpstreamThatReadsNothing(t *testing.T) {
	p := newPeer(t, func(_ int, c *peerConn) { time.Sleep(time.Second); c.wait() })
	c := clientOf(t, Config{Name: "deaf", URL: p.url(), Timeout: 100 * time.Millisecond})
	start := time.Now()
	_, _, err := do(c, post(strings.Repeat("x", 16<<20)))
	wantKind(t, err, ErrTimeout)
	if d := time.Since(start); d > 900*time.Millisecond {
		t.Errorf("took %s", d)
	}
}

// TestEarlyAnswer: the response of an upstream that refuses a large request
// without reading it is returned, and its connection is not reused.
func TestEarlyAnswer(t *testing.T) {
	p := newPeer(t, func(_ int, c *peerConn) {
		c.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
		_, _ = io.CopyN(io.Discard, c.r, 4<<20)
		c.reset()
	})
	c := newTestClient(t, p.url())
	resp, body, err := do(c, post(strings.Repeat("x", 16<<20)))
	if err != nil || resp.Status != 413 || body != "big" {
		t.Errorf("answer %+v %q, %v", resp, body, err)
	}
	if s := c.Stats(); s.Open != 0 {
		t.Errorf("%+v, want no connection", s)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + l.Addr().String()
	l.Close()
	for name, url := range map[string]string{"refused": closed, "no such name": "http://no-such-host.invalid/"} {
		t.Run(name, func(t *testing.T) {
			_, _, err := do(newTestClient(t, url), post(`{}`))
			wantKind(t, err, ErrUnreachable)
			if e := (*Error)(nil); errors.As(err, &e) && e.Sent {
				t.Error("Sent, though there was no connection")
			}
			if name == "refused" && !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("error %v hides its cause", err)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	tests := []struct {
		name   string
		answer string // sent before the wait
	}{
		{"before the answer", ""},
		{"within the header", "HTTP/1.1 200 OK\r\n"},
		{"within the body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"},
		{"within a stream", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n: hi\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			gone := make(chan struct{})
			ctx, cancel := context.WithCancel(context.Background())
			p := newPeer(t, func(_ int, c *peerConn) {
				c.request()
				c.send(tt.answer)
				time.AfterFunc(20*time.Millisecond, cancel)
				c.wait()
				close(gone)
			})
			c := newTestClient(t, p.url())
			req := post(`{}`)
			req.Timeouts = &Timeouts{}
			resp, err := c.Do(ctx, req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			wantKind(t, err, context.Canceled)
			select {
			case <-gone:
			case <-time.After(5 * time.Second):
				t.Error("the upstream still has its connection")
			}
			if s := c.Stats(); s.Open != 0 {
				t.Errorf("%+v, want no connection", s)
			}
		})
	}
	t.Run("before the start", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := newTestClient(t, "http://127.0.0.1:1").Do(ctx, post(`{}`))
		wantKind(t, err, context.Canceled)
	})
	t.Run("a deadline is a time-out", func(t *testing.T) {
		p := newPeer(t, func(_ int, c *peerConn) { c.wait() })
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, err := newTestClient(t, p.url()).Do(ctx, post(`{}`))
		wantKind(t, err, ErrTimeout)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v does not say whose", err)
		}
	})
	t.Run("after the end the connection stays", func(t *testing.T) {
		c := newTestClient(t, answering(t, okAnswer).url())
		ctx, cancel := context.WithCancel(context.Background())
		resp, err := c.Do(ctx, post(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		cancel()
		resp.Body.Close()
		if s := c.Stats(); s.Idle != 1 {
			t.Errorf("%+v, want the connection idle", s)
		}
	})
}

func TestCloseBody(t *testing.T) {
	t.Run("while a Read waits", func(t *testing.T) {
		p := newPeer(t, func(_ int, c *peerConn) {
			c.request()
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
			c.wait()
		})
		c := newTestClient(t, p.url())
		resp, err := c.Do(context.Background(), post(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(20*time.Millisecond, func() { resp.Body.Close() })
		_, err = io.ReadAll(resp.Body)
		wantKind(t, err, ErrUnreachable)
		if !errors.Is(err, errBodyClosed) {
			t.Errorf("error %v", err)
		}
		_, err = resp.Body.Read(make([]byte, 1))
		if !errors.Is(err, errBodyClosed) {
			t.Errorf("then error %v", err)
		}
	})
	t.Run("before its end costs the connection", func(t *testing.T) {
		p := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		c := newTestClient(t, p.url())
		resp, err := c.Do(context.Background(), post(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		resp.Body.Close()
		if s := c.Stats(); s.Open != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("racing with the end", func(t *testing.T) {
		c := newTestClient(t, answering(t, okAnswer).url())
		for range 200 {
			resp, err := c.Do(context.Background(), post(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() { resp.Body.Close() })
			wg.Go(func() { _, _ = io.ReadAll(resp.Body) })
			wg.Wait()
		}
	})
}

func TestPool(t *testing.T) {
	t.Run("bound and waiting", func(t *testing.T) {
		var now, most atomic.Int32
		p := serving(t, func(c *peerConn, _ *http.Request, _ []byte) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(2 * time.Millisecond)
			now.Add(-1)
			c.send(okAnswer)
		})
		c := newTestClient(t, p.url(), withMaxConns(3))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, body, err := do(c, post(`{}`)); err != nil || body != "ok" {
					t.Errorf("%q, %v", body, err)
				}
			})
		}
		wg.Wait()
		if most.Load() > 3 || p.accepted() > 3 {
			t.Errorf("%d at once on %d connections, want at most 3", most.Load(), p.accepted())
		}
		if s := c.Stats(); s.Waiting != 0 || s.Open != s.Idle {
			t.Errorf("%+v", s)
		}
	})
	t.Run("the wait for a connection is bounded", func(t *testing.T) {
		p := newPeer(t, func(_ int, c *peerConn) { c.wait() })
		c := newTestClient(t, p.url(), withMaxConns(1))
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Do(ctx, post(`{}`)) })
		eventually(t, "the connection to be taken", func() bool { return c.Stats().Dials == 1 })
		req := post(`{}`)
		req.Timeouts = &Timeouts{FirstByte: 30 * time.Millisecond}
		_, err := c.Do(context.Background(), req)
		wantKind(t, err, ErrTimeout)
		gone, leave := context.WithTimeout(context.Background(), 30*time.Millisecond)
		defer leave()
		_, err = c.Do(gone, post(`{}`))
		wantKind(t, err, ErrTimeout)
		cancel()
		wg.Wait()
		if s := c.Stats(); s.Open != 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a place that becomes free goes to who waits", func(t *testing.T) {
		p := newPeer(t, func(n int, c *peerConn) {
			c.request()
			if n == 0 {
				time.Sleep(20 * time.Millisecond)
				return // the first request fails
			}
			c.send(okAnswer)
			c.wait()
		})
		c := newTestClient(t, p.url(), withMaxConns(1))
		var wg sync.WaitGroup
		wg.Go(func() { _, _, _ = do(c, post(`{}`)) })
		eventually(t, "the connection to be taken", func() bool { return c.Stats().Dials == 1 })
		if _, body, err := do(c, post(`{}`)); err != nil || body != "ok" {
			t.Errorf("%q, %v", body, err)
		}
		wg.Wait()
	})
	t.Run("idle connections go", func(t *testing.T) {
		c := newTestClient(t, answering(t, okAnswer).url(), withIdleTimeout(40*time.Millisecond))
		if _, _, err := do(c, post(`{}`)); err != nil {
			t.Fatal(err)
		}
		if s := c.Stats(); s.Idle != 1 {
			t.Fatalf("%+v", s)
		}
		eventually(t, "the idle connection to go", func() bool { return c.Stats().Open == 0 })
	})
	t.Run("no more idle than allowed", func(t *testing.T) {
		var arrived sync.WaitGroup
		arrived.Add(8)
		p := newPeer(t, func(_ int, c *peerConn) {
			c.request()
			arrived.Done()
			arrived.Wait()
			c.send(okAnswer)
			c.wait()
		})
		c := newTestClient(t, p.url(), withMaxIdle(2))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { _, _, _ = do(c, post(`{}`)) })
		}
		wg.Wait()
		if s := c.Stats(); s.Idle != 2 || s.Open != 2 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("an old connection is not used again", func(t *testing.T) {
		p := answering(t, okAnswer)
		c := newTestClient(t, p.url(), withMaxAge(0))
		for range 3 {
			if _, _, err := do(c, post(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		if n := p.accepted(); n != 3 {
			t.Errorf("%d connections, want 3", n)
		}
	})
	t.Run("the upstream says how long it keeps", func(t *testing.T) {
		c := newTestClient(t, answering(t, "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5, max=100\r\nContent-Length: 0\r\n\r\n").url())
		if _, _, err := do(c, post(`{}`)); err != nil {
			t.Fatal(err)
		}
		if got := c.pool.idleFor(c.pool.idle[0]); got != 4*time.Second {
			t.Errorf("kept for %s, want 4s", got)
		}
	})
}

func TestClose(t *testing.T) {
	release := make(chan struct{})
	p := serving(t, func(c *peerConn, _ *http.Request, body []byte) {
		if string(body) == "slow" {
			<-release
		}
		c.send(okAnswer)
	})
	c := newTestClient(t, p.url())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, body, err := do(c, post("slow")); err != nil || body != "ok" {
			t.Errorf("the running exchange ended with %q, %v", body, err)
		}
	})
	eventually(t, "the slow request to run", func() bool { return c.Stats().Dials == 1 })
	if _, _, err := do(c, post("quick")); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if s := c.Stats(); s.Open != 1 || s.Idle != 0 {
		t.Errorf("%+v, want only the running exchange", s)
	}
	_, _, err := do(c, post("late"))
	wantKind(t, err, ErrClosed)

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	time.AfterFunc(0, func() { close(release) })
	wg.Wait()
	if err := c.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
}

func TestDrainCutsWhatDoesNotEnd(t *testing.T) {
	p := newPeer(t, func(_ int, c *peerConn) { c.wait() })
	c := newTestClient(t, p.url())
	var wg sync.WaitGroup
	wg.Go(func() {
		req := post(`{}`)
		req.Timeouts = &Timeouts{}
		_, _, err := do(c, req)
		wantKind(t, err, ErrUnreachable)
	})
	eventually(t, "the request to run", func() bool { return c.Stats().Dials == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := c.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain: %v", err)
	}
	wg.Wait()
}

func TestEventStreamIsNotBoundedBySize(t *testing.T) {
	p := answering(t, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nContent-Length: 100\r\n\r\n"+strings.Repeat("x", 100))
	c := clientOf(t, Config{Name: "stream", URL: p.url(), Timeout: time.Second, MaxResponseBytes: 10})
	if _, body, err := do(c, post(`{}`)); err != nil || len(body) != 100 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

func TestReadAll(t *testing.T) {
	large := strings.Repeat("0123456789", 300<<10)
	for _, framed := range []string{
		"Content-Length: 0\r\n\r\n",
		"Content-Length: 5\r\n\r\n01234",
		"Content-Length: 3072000\r\n\r\n" + large,
		"Transfer-Encoding: chunked\r\n\r\n2ee000\r\n" + large + "\r\n0\r\n\r\n",
		"\r\n" + large,
	} {
		p := newPeer(t, func(_ int, c *peerConn) { c.request(); c.send("HTTP/1.1 200 OK\r\n" + framed) })
		c := clientOf(t, Config{Name: "all", URL: p.url(), Timeout: time.Second, MaxResponseBytes: 4 << 20})
		resp, err := c.Do(context.Background(), post(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := resp.ReadAll([]byte("before "), nil)
		resp.Body.Close()
		_, want, _ := strings.Cut(framed, "\r\n\r\n")
		if strings.HasPrefix(framed, "Transfer") {
			want = large
		} else if strings.HasPrefix(framed, "\r\n") {
			want = framed[2:]
		}
		if err != nil || string(got) != "before "+want {
			t.Errorf("%.40q: %d bytes, %v", framed, len(got), err)
		}
	}
	t.Run("an announced length takes no memory by itself", func(t *testing.T) {
		p := newPeer(t, func(_ int, c *peerConn) {
			c.request()
			c.send("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\nhel")
		})
		c := clientOf(t, Config{Name: "liar", URL: p.url(), Timeout: time.Second, MaxResponseBytes: 2 << 30})
		resp, err := c.Do(context.Background(), post(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := resp.ReadAll(nil, nil)
		wantKind(t, err, ErrUnreachable)
		if string(got) != "hel" || cap(got) > 2<<20 {
			t.Errorf("%q in %d bytes", got, cap(got))
		}
	})
}

func TestResponseLimit(t *testing.T) {
	for _, framed := range []string{"Content-Length: 11\r\n\r\n01234567890", "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n", "\r\n01234567890"} {
		p := newPeer(t, func(_ int, c *peerConn) { c.request(); c.send("HTTP/1.1 200 OK\r\n" + framed) })
		c := clientOf(t, Config{Name: "large", URL: p.url(), Timeout: time.Second, MaxResponseBytes: 10})
		_, _, err := do(c, post(`{}`))
		wantKind(t, err, ErrInvalidResponse)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%q: error %v", framed, err)
		}
	}
}

func TestManyRequestsAtOnce(t *testing.T) {
	p := serving(t, func(c *peerConn, _ *http.Request, body []byte) {
		c.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for i := range body {
			c.send("1\r\n" + string(body[i:i+1]) + "\r\n")
		}
		c.send("0\r\n\r\n")
	})
	c := newTestClient(t, p.url(), withMaxConns(10))
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			for i := range 30 {
				want := strings.Repeat(string(rune('a'+g)), 1+i)
				ctx, cancel := context.WithCancel(context.Background())
				if i%7 == 3 {
					time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
				}
				resp, err := c.Do(ctx, post(want))
				if err == nil {
					var b []byte
					if b, err = io.ReadAll(resp.Body); err == nil && string(b) != want {
						t.Errorf("answer %q, want %q", b, want)
					}
					resp.Body.Close()
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

func TestErrorsHoldNoSecrets(t *testing.T) {
	c := clientOf(t, Config{Name: "secret", URL: "http://127.0.0.1:1/mcp?token=s3cret", Timeout: time.Second, Headers: map[string]string{"Authorization": "Bearer s3cret"}})
	_, _, err := do(c, &HTTPRequest{Method: "POST", Header: mcp.Header{{Name: "A", Value: "s3cret\n"}}})
	for _, err := range []error{err, func() error { _, _, err := do(c, post(`s3cret`)); return err }()} {
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("error %v", err)
		}
	}
	_, err = NewClient(Config{Name: "x", URL: "http://user:s3cret@127.0.0.1/"})
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %v", err)
	}
	if _, err := NewClient(Config{Name: "x", URL: "https://127.0.0.1/", TLS: TLSConfig{CAFile: "/does/not/exist"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// withMaxConns bounds the number of open connections, including streams. A request beyond it
// waits for a connection, up to its first-byte timeout.
func withMaxConns(n int) option { return func(p *pool) { p.maxConns = max(n, 1) } }

// withMaxIdle bounds the number of idle connections.
func withMaxIdle(n int) option { return func(p *pool) { p.maxIdle = max(n, 0) } }

// withIdleTimeout is the time after which an idle connection is closed, unless the upstream
// announced another time.
func withIdleTimeout(d time.Duration) option { return func(p *pool) { p.idleTimeout = d } }

// withMaxAge is the maximum lifetime of a connection, so that a change of the upstream's address
// takes effect under constant load too.
func withMaxAge(d time.Duration) option { return func(p *pool) { p.maxAge = d } }
