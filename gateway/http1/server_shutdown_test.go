package http1

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestPanicEndsOneConnection(t *testing.T) {
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch string(b) {
		case "panic":
			panic("on purpose")
		case "abort":
			panic(http.ErrAbortHandler)
		case "late":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "a part")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	for _, body := range []string{"abort", "late", "panic"} {
		c := dial(t, r.addr)
		c.send("%s", post(body))
		b, _ := io.ReadAll(c.r)
		if want := body == "late"; strings.Contains(string(b), "a part") != want || !want && len(b) > 0 {
			t.Errorf("%s: %q", body, b)
		}
		if logged := strings.Contains(r.log.String(), "on purpose"); logged != (body == "panic") {
			t.Errorf("%s: logged %v: %s", body, logged, r.log.String())
		}
	}
	c := dial(t, r.addr)
	c.send("%s", post("fine"))
	if resp, _ := c.answer(); resp.StatusCode != 200 {
		t.Errorf("after panics: %d", resp.StatusCode)
	}
}

func TestShutdown(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); string(b) == "slow" {
			close(entered)
			<-release
		}
		io.WriteString(w, "finished")
	})
	still, busy, silent := dial(t, r.addr), dial(t, r.addr), dial(t, r.addr)
	still.send("%s", post("x"))
	still.answer()
	busy.send("%s", post("slow"))
	<-entered
	for accepted := 0; accepted < 3; { // connections that are not accepted yet would be refused
		r.mu.Lock()
		accepted = len(r.conns)
		r.mu.Unlock()
	}
	done := make(chan error, 1)
	go func() { done <- r.Shutdown(context.Background()) }()
	still.ended() // at once
	if c, err := net.Dial("tcp", r.addr); err == nil {
		c.Close()
		t.Error("a connection is still accepted")
	}
	// The first request of a connection that was accepted before is answered.
	silent.send("%s", post("x"))
	if resp, body := silent.answer(); !resp.Close || body != "finished" {
		t.Errorf("late request: %q, close %v", body, resp.Close)
	}
	silent.ended()
	select {
	case err := <-done:
		t.Fatalf("Shutdown returned %v with a request in flight", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if resp, body := busy.answer(); !resp.Close || body != "finished" {
		t.Errorf("request in flight: %q, close %v", body, resp.Close)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A partial header, of a first request or of a later one, delays shutdown by about a second and
// not by the time-out of headers.
func TestShutdownDoesNotWaitForTheRestOfAHeader(t *testing.T) {
	r := start(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done") })
	first, later := dial(t, r.addr), dial(t, r.addr)
	later.send("%s", post("x"))
	later.answer()
	for _, c := range []*client{first, later} {
		c.send("%s", "POST /mcp HTTP/1.1\r\nHost: x")
	}
	for waiting := 0; waiting < 2; {
		waiting = 0
		r.mu.Lock()
		for c := range r.conns {
			if c.partial.Load() == headPart {
				waiting++
			}
		}
		r.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*newConnTime)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	first.ended()
	later.ended()
}

func TestShutdownWithoutAnEnd(t *testing.T) {
	entered, cancelled := make(chan struct{}), make(chan error, 1)
	r := start(t, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		cancelled <- r.Context().Err()
	})
	c := dial(t, r.addr)
	c.send("%s", post("x"))
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Shutdown: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("request: %v", err)
	}
	c.ended()
}

type exhausted struct {
	net.Listener
	left atomic.Int32
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func TestAcceptGoesOn(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	few := &exhausted{Listener: ln}
	few.left.Store(3)
	s := NewServer(Options{Paths: []string{"/mcp"}, Handler: http.HandlerFunc(echo), BodyRate: 1,
		Fallback: &http.Server{Handler: http.HandlerFunc(echo), ErrorLog: log.New(io.Discard, "", 0)}})
	served := make(chan error, 1)
	go func() { served <- s.Serve(few) }()
	c := dial(t, ln.Addr().String())
	c.send("%s", post("x"))
	if _, body := c.answer(); body != "front=true POST /mcp x" {
		t.Errorf("%q", body)
	}
	s.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}
