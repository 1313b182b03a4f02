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
