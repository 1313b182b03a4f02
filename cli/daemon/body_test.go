package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// trickle delivers one byte each second.
type trickle struct{ left int }

func (t *trickle) Read(p []byte) (int, error) {
	if t.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Second)
	t.left--
	p[0] = 'x'
	return 1, nil
}

func (t *trickle) Close() error { return nil }

func TestBodyDeadline(t *testing.T) {
	tests := []struct {
		name string
		size int
		want time.Duration // deadline after the first read, since the start
	}{
		{"small", 10, bodyGrace + 4*time.Second},
		{"grows with what arrived", 6 * bodyRate, bodyGrace + 8*time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var deadlines []time.Time
				start := time.Now()
				b := &timedBody{
					ctx:        t.Context(),
					ReadCloser: io.NopCloser(iotest.DataErrReader(strings.NewReader(strings.Repeat("x", tt.size)))),
					deadline:   func(d time.Time) error { deadlines = append(deadlines, d); return nil },
					grace:      bodyGrace,
					start:      start,
				}
				if n, err := io.Copy(io.Discard, struct{ io.Reader }{b}); err != nil || int(n) != tt.size {
					t.Fatalf("read %d %v", n, err)
				}
				last := len(deadlines) - 1
				if !deadlines[last].IsZero() {
					t.Errorf("deadline %v stands after the end of the body, want it lifted", deadlines[last])
				}
				if got := deadlines[last-1].Sub(start); got != tt.want {
					t.Errorf("last deadline %v after the start, want %v", got, tt.want)
				}
			})
		})
	}
}

// A deadline that is extended after the request was canceled still ends the reading.
func TestBodyDeadlineAfterTheEndOfTheRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var deadline time.Time
	b := &timedBody{ctx: ctx, ReadCloser: &trickle{left: 1}, deadline: func(d time.Time) error { deadline = d; return nil }, grace: bodyGrace, start: time.Now()}
	cancel()
	_, _ = b.Read(make([]byte, 1))
	if !deadline.Before(b.start) {
		t.Errorf("reads may take until %v", deadline)
	}
}

func TestBodyTricklePassesItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var deadline time.Time
		b := &timedBody{
			ctx:        t.Context(),
			ReadCloser: &trickle{left: 1000},
			deadline:   func(d time.Time) error { deadline = d; return nil },
			grace:      bodyGrace,
			start:      time.Now(),
		}
		buf := make([]byte, 512)
		for range 60 {
			if _, err := b.Read(buf); err != nil {
				t.Fatal(err)
			}
		}
		if now := time.Now(); !deadline.Before(now) {
			t.Errorf("60 bytes in 60 seconds: the deadline %v is still ahead of %v", deadline, now)
		}
	})
}

// The deadline applies to the connection: a body that stops arriving is an error in
// the handler, and a response after a complete body is not ended.
func TestBodyDeadlineReachesConnection(t *testing.T) {
	got := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tb := r.Body.(*timedBody)
		set := tb.deadline
		tb.deadline = func(d time.Time) error {
			if !d.IsZero() {
				d = time.Now().Add(50 * time.Millisecond)
			}
			return set(d)
		}
		tb.granted = 0 // the first read sets it again
		_, err := io.ReadAll(r.Body)
		got <- err
		time.Sleep(100 * time.Millisecond)
		io.WriteString(w, "answered")
	})
	r := start(t, Options{}, h)
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("half a body: %v, want a passed deadline", err)
	}
	resp, err := http.Post(r.url, "text/plain", strings.NewReader("whole"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(body) != "answered" || <-got != nil {
		t.Errorf("whole body: answer %q %v", body, err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
}

// When a sender stops in the middle of its body, it gets a response and its
// connection is closed when its time is over, whether the handler reads the body or,
// as for an invalid key, responds without reading it.
func TestBodyThatStopsEndsItsConnection(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"read": func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err == nil {
				t.Error("half a body was read as a whole one")
			}
			w.WriteHeader(http.StatusBadRequest)
		},
		"not read": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadRequest) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := &http.Server{Handler: limitBodyTime(h, -4*time.Second+100*time.Millisecond)}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- srv.Serve(ln) }()
			defer func() { srv.Close(); <-served }()
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nhalf")
			conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
				t.Errorf("answer %q, %v; want a 400 and the end of the connection", answer, err)
			}
		})
	}
}

// A client that sends a whole large body before it reads the response gets the
// response that was sent without reading the body, both from package http1 and from
// net/http.
func TestLargeBodyThatIsNotReadIsAnswered(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	for _, opts := range [][]ListenOption{nil, {Calls("/mcp")}} {
		d := New(Options{})
		addr, err := d.Listen("t", "127.0.0.1:0", h, nil, opts...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- d.Run(ctx) }()
		for range 5 {
			resp, err := http.Post(BaseURL(addr, false)+"/mcp", "text/plain", strings.NewReader(strings.Repeat("a", 17<<20)))
			if err != nil {
				t.Errorf("%d options: %v", len(opts), err)
				break
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%d options: %s", len(opts), resp.Status)
			}
		}
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
}

// Bytes after a chunked body are not a request, both in package http1 and in
// net/http: with an additional Content-Length another reader took them for a part of
// the body.
func TestNothingIsReadBehindChunks(t *testing.T) {
	var seen atomic.Int64
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Error(err)
		}
	})
	for _, opts := range [][]ListenOption{nil, {Calls("/mcp")}} {
		d := New(Options{})
		addr, err := d.Listen("t", "127.0.0.1:0", h, nil, opts...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- d.Run(ctx) }()
		seen.Store(0)
		c, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		const good = "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
		io.WriteString(c, good+"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 80\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+good)
		got, _ := io.ReadAll(c) // the connection may end with a reset
		if seen.Load() != 2 {
			t.Errorf("%d requests were served, want 2: %q", seen.Load(), got)
		}
		c.Close()
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
}

// A canceled request sets no deadline after its handler has returned: on HTTP/2 that
// would be a nil pointer panic outside of any handler, which ends the process.
func TestNoDeadlineIsSetAfterTheRequest(t *testing.T) {
	for range 1000 {
		ctx, cancel := context.WithCancel(t.Context())
		var served atomic.Bool
		stop := endWith(ctx, func(time.Time) error {
			if served.Load() {
				t.Error("a deadline is set after the handler returned")
			}
			return nil
		})
		go cancel()
		stop()
		served.Store(true)
	}
}
