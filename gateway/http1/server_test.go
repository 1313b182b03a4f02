package http1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestServesCallsAndHandsOverTheRest(t *testing.T) {
	r := start(t, echo)
	c := dial(t, r.addr)
	for i := range 3 {
		c.send("%s", post(fmt.Sprint("call ", i)))
		if resp, body := c.answer(); resp.StatusCode != 200 || body != fmt.Sprintf("front=true POST /mcp call %d", i) {
			t.Fatalf("call %d: %d %q", i, resp.StatusCode, body)
		}
	}
	// The first other request hands over the connection, with all bytes after it.
	c.send("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n%s", post("late"))
	if _, body := c.answer(); body != "front=false GET /readyz " {
		t.Errorf("other path: %q", body)
	}
	if _, body := c.answer(); body != "front=false POST /mcp late" {
		t.Errorf("behind it: %q", body)
	}
}

func TestRequestIsWhatNetHTTPMakesOfIt(t *testing.T) {
	type seen struct {
		Method, URI, Host, Proto, Path, Body string
		Header                               http.Header
		Length                               int64
		Close                                bool
		Local                                bool
	}
	var got []seen
	h := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
		if _, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || r.TLS != nil {
			t.Errorf("remote address %q, TLS %v", r.RemoteAddr, r.TLS)
		}
		got = append(got, seen{r.Method, r.RequestURI, r.Host, r.Proto, r.URL.String(), string(b), r.Header.Clone(), r.ContentLength, r.Close,
			local != nil && local.String() == "127.0.0.1:"+port(local) && server != nil})
	}
	r := start(t, h)
	plain := &http.Server{Handler: http.HandlerFunc(h)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- plain.Serve(ln) }()
	defer func() { plain.Close(); <-served }()
	text := post(`{"a":1}`, "Accept: a", "accept: b", "X-Custom-thing:  v ", "Authorization: Bearer x", "Connection: close")
	for _, addr := range []string{r.addr, ln.Addr().String()} {
		c := dial(t, addr)
		c.send("%s", text)
		c.answer()
		c.ended()
	}
	if a, b := fmt.Sprintf("%+v", got[0]), fmt.Sprintf("%+v", got[1]); a != b || !got[0].Local {
		t.Errorf("here   %s\nthere  %s", a, b)
	}
}

func port(a net.Addr) string { _, p, _ := net.SplitHostPort(a.String()); return p }

// hostile are inputs of connections, in addition to the headers of the other table.
var hostile = []struct{ name, text string }{
	{"two pipelined", post("one") + post("two")},
	{"pipelined behind a body of a lying length", request("Host: a", "Content-Length: 1") + "xPOST /mcp HTTP/1.1\r\n"},
	{"smuggled by length and chunks", request("Host: a", "Content-Length: 4", "Transfer-Encoding: chunked") + "5c\r\n" + post("x")},
	{"smuggled by two lengths", request("Host: a", "Content-Length: 0", "Content-Length: 40") + post("x")},
	{"smuggled by a sign", request("Host: a", "Content-Length: +0") + post("x")},
	{"smuggled by a continued line", request("Host: a", "A: b\r\n Content-Length: 5", "Content-Length: 0") + post("x")},
	{"bare line feeds", strings.ReplaceAll(post("x"), "\r\n", "\n")},
	{"chunked", request("Host: a", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n"},
	{"expect", request("Host: a", "Content-Length: 1", "Expect: 100-continue") + "x"},
	{"empty line first", "\r\n" + post("x")},
	{"rubbish", "rubbish\r\n\r\n"},
	{"garbage after a call", post("x") + "rubbish\r\n\r\n"},
	{"half a header", "POST /mcp HTTP/1.1\r\nHost: a\r\nConte"},
	{"half a body", request("Host: a", "Content-Length: 10") + "half"},
	{"nothing", ""},
}

// For every input a client gets the statuses, the bodies and the end of the connection that
// net/http would give.
func TestAnswersAsNetHTTPDoes(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, b)
	}
	r := start(t, h)
	plain := &http.Server{Handler: http.HandlerFunc(h), MaxHeaderBytes: 64 << 10}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- plain.Serve(ln) }()
	defer func() { plain.Close(); <-served }()
	cases := hostile
	for _, tt := range heads {
		switch {
		case tt.name == "no body":
			cases = append(cases, struct{ name, text string }{tt.name, tt.text})
		case tt.want != incomplete:
			cases = append(cases, struct{ name, text string }{tt.name, tt.text + "{}"})
		}
	}
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			var got [2]string
			for i, addr := range []string{r.addr, ln.Addr().String()} {
				c := dial(t, addr)
				go func() {
					io.WriteString(c, tt.text)
					c.Conn.(*net.TCPConn).CloseWrite()
				}()
				b, _ := io.ReadAll(c.r)
				got[i] = undated(string(b))
			}
			if got[0] != got[1] {
				t.Errorf("front\n%q\nnet/http\n%q", got[0], got[1])
			}
		})
	}
}

// undated removes the Date field, and Connection: close, which net/http omits if the client
// cannot continue anyway.
func undated(s string) string {
	var kept []string
	for line := range strings.SplitSeq(s, "\r\n") {
		if !strings.HasPrefix(line, "Date: ") && line != "Connection: close" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\r\n")
}

func TestContextEndsWhenTheClientLeaves(t *testing.T) {
	leave := map[string]func(*net.TCPConn){
		"closes":       func(c *net.TCPConn) { c.Close() },
		"resets":       func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
		"closes half":  func(c *net.TCPConn) { c.CloseWrite() },
		"closes later": func(c *net.TCPConn) { time.Sleep(50 * time.Millisecond); c.Close() },
	}
	for name, do := range leave {
		for _, before := range []int{0, 2} { // previous requests on the connection
			t.Run(fmt.Sprint(name, " after ", before), func(t *testing.T) {
				entered, ended := make(chan bool, 1), make(chan error, 1)
				var calls atomic.Int32
				r := start(t, func(w http.ResponseWriter, r *http.Request) {
					if int(calls.Add(1)) <= before {
						return
					}
					entered <- byFront(w)
					select {
					case <-r.Context().Done():
						ended <- context.Cause(r.Context())
					case <-time.After(10 * time.Second):
						ended <- errors.New("nobody noticed")
					}
				})
				c := dial(t, r.addr)
				for range before {
					c.send("%s", post("x"))
					c.answer()
				}
				c.send("%s", post("x"))
				if !<-entered {
					t.Fatal("net/http serves it")
				}
				do(c.Conn.(*net.TCPConn))
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want it cancelled", err)
				}
			})
		}
	}
}

// The disconnect of a client that has already sent its next request is detected too, and the next
// request of a client that stays is not lost.
func TestPipelinedRequestsBehindASlowOne(t *testing.T) {
	slow := make(chan struct{})
	ended := make(chan error, 3)
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if string(b) == "slow" {
			select {
			case <-slow:
			case <-r.Context().Done():
			}
			ended <- r.Context().Err()
		}
		fmt.Fprintf(w, "%s", b)
	})
	c := dial(t, r.addr)
	c.send("%s", post("slow")+post("second")+post("third"))
	time.Sleep(20 * time.Millisecond)
	close(slow)
	for _, want := range []string{"slow", "second", "third"} {
		if _, body := c.answer(); body != want {
			t.Fatalf("%q, want %q", body, want)
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("client that stayed: %v", err)
	}
	slow = make(chan struct{})
	c = dial(t, r.addr)
	c.send("%s", post("slow")+post("second"))
	time.Sleep(20 * time.Millisecond)
	c.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("client that left behind a second request: %v", err)
	}
}

// The context of a request does not end with a later one, nor outlive its own.
func TestContextsOfOneConnection(t *testing.T) {
	var first context.Context
	var fired atomic.Int32
	var calls int
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		switch calls {
		case 1:
			first = r.Context()
			stop := first.(*requestContext).AfterFunc(func() { fired.Add(1) })
			if !stop() || stop() {
				t.Error("stop: want true once")
			}
		case 2:
			if r.Context() != first {
				t.Error("a context without waiters is not reused")
			}
			<-time.After(time.Millisecond)
			_ = r.Context().Done()
			context.AfterFunc(r.Context(), func() { fired.Add(1) })
			ctx, cancel := context.WithCancel(r.Context())
			context.AfterFunc(ctx, func() { fired.Add(1) })
			_ = cancel
		case 3:
			if first.Err() == nil || r.Context() == first || r.Context().Err() != nil {
				t.Error("a context with a waiter is reused")
			}
		}
	})
	c := dial(t, r.addr)
	for range 3 {
		c.send("%s", post("x"))
		c.answer()
	}
	for i := 0; fired.Load() != 2 && i < 1000; i++ {
		time.Sleep(time.Millisecond)
	}
	if n := fired.Load(); n != 2 {
		t.Errorf("%d functions ran after the request, want 2", n)
	}
}

func TestSlowBodyEnds(t *testing.T) {
	got := make(chan error, 1)
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		got <- err
		w.WriteHeader(http.StatusRequestTimeout)
	}, func(o *Options) { o.BodyGrace = -4*time.Second + 100*time.Millisecond })
	c := dial(t, r.addr)
	c.send("%s", request("Host: a", "Content-Length: 50")+"half")
	if resp, _ := c.answer(); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", resp.StatusCode)
	}
	if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want a passed deadline", err)
	}
	c.ended()
}

// The time-out of a body does not apply to the response.
func TestAnswerOutlivesBodyDeadline(t *testing.T) {
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(300 * time.Millisecond):
		case <-r.Context().Done():
			t.Error("cancelled")
		}
	}, func(o *Options) { o.BodyGrace = -4*time.Second + 100*time.Millisecond })
	c := dial(t, r.addr)
	for range 2 {
		c.send("%s", request("Host: a", "Content-Length: 4")+"ha")
		time.Sleep(10 * time.Millisecond)
		c.send("lf")
		if resp, _ := c.answer(); resp.StatusCode != 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
}

func TestSlowHeaderEnds(t *testing.T) {
	for _, text := range []string{"", "POST /mcp", "POST /mcp HTTP/1.1\r\nHost: a\r\n"} {
		r := start(t, echo, func(o *Options) { o.Fallback.ReadHeaderTimeout = 50 * time.Millisecond })
		c := dial(t, r.addr)
		c.send("%s", text)
		c.ended()
	}
}

func TestIdleConnectionEnds(t *testing.T) {
	r := start(t, echo, func(o *Options) { o.Fallback.IdleTimeout = 50 * time.Millisecond })
	c := dial(t, r.addr)
	c.send("%s", post("x"))
	c.answer()
	c.ended()
}

// The unread rest of a small body is read, so that the connection is reused; a large one closes
// the connection after the response.
func TestUnreadBody(t *testing.T) {
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "no")
	})
	c := dial(t, r.addr)
	c.send("%s", post("small"))
	c.answer()
	c.send("%s", request("Host: a", "Content-Length: 100000"))
	go c.Write(make([]byte, 100000))
	if resp, body := c.answer(); resp.StatusCode != http.StatusForbidden || body != "no" || resp.Close {
		t.Errorf("%d %q close %v", resp.StatusCode, body, resp.Close)
	}
	c.send("%s", request("Host: a", "Content-Length: 3000000"))
	go c.Write(make([]byte, 3000000))
	if resp, body := c.answer(); resp.StatusCode != http.StatusForbidden || body != "no" || !resp.Close {
		t.Errorf("%d %q close %v", resp.StatusCode, body, resp.Close)
	}
	if b, _ := io.ReadAll(c.r); len(b) > 0 {
		t.Errorf("%q behind the answer", b)
	}
}

// TestRequestTakesNoMemory counts the allocations of the server itself for a request.
func TestRequestTakesNoMemory(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 300)
	fixed := []string{"300"}
	kind := []string{"application/json"}
	in := make([]byte, 4096)
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		if stop := r.Context().(*requestContext).AfterFunc(func() {}); !stop() {
			t.Error("cancelled")
		}
		for {
			if _, err := r.Body.Read(in); err != nil {
				break
			}
		}
		w.Header()["Content-Type"], w.Header()["Content-Length"] = kind, fixed
		w.Write(body)
	})
	c := dial(t, r.addr)
	text := []byte(post(strings.Repeat("y", 200), "Content-Type: application/json", "Authorization: Bearer a"))
	buf := make([]byte, 4096)
	n := testing.AllocsPerRun(200, func() {
		c.Conn.Write(text)
		for got := 0; got < 300; {
			k, err := c.Conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got += k
		}
	})
	// A handler that waits for the end of the context costs two.
	if n > 2 {
		t.Errorf("%v allocations a request, want 2", n)
	}
}

// Line breaks after a body, which some clients send, belong to no request; the connection is not
// handed over, and is idle.
func TestLineBreaksBehindABody(t *testing.T) {
	r := start(t, echo)
	c := dial(t, r.addr)
	for i := range 3 {
		c.send("%s\r\n", post(fmt.Sprint(i)))
		if _, body := c.answer(); body != fmt.Sprintf("front=true POST /mcp %d", i) {
			t.Fatalf("call %d: %q", i, body)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Errorf("shutdown waits for a line break: %v", err)
	}
	c.ended()
}

// A client that sends its whole body before it reads gets the response to a request that was
// refused by its header.
func TestAnswerReachesAClientThatIsStillSending(t *testing.T) {
	r := start(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	const size = 12 << 20
	c := dial(t, r.addr)
	c.send("%s", request("Host: a", fmt.Sprint("Content-Length: ", size)))
	if _, err := c.Write(make([]byte, size)); err != nil {
		t.Errorf("while sending: %v", err)
	}
	if resp, _ := c.answer(); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
	c.ended()
}

// Shutdown does not wait for a body whose deadline is extended while the server is cancelled.
func TestABodyReadAfterCancelIsNotWaitedFor(t *testing.T) {
	server, read := make(chan *running, 1), make(chan error, 1)
	r := start(t, func(w http.ResponseWriter, req *http.Request) {
		(<-server).Cancel(context.Canceled) // before the first read, which extends the deadline
		_, err := io.ReadAll(req.Body)
		read <- err
		w.WriteHeader(http.StatusServiceUnavailable)
	}, func(o *Options) { o.BodyGrace = time.Hour })
	server <- r
	c := dial(t, r.addr)
	c.send("%s", request("Host: a", "Content-Length: 20")+"half")
	select {
	case err := <-read:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the body ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("shutdown waits for the body")
		c.Close()
		<-read
	}
}
