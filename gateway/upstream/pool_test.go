package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

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
