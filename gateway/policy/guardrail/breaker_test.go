package guardrail

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"svc/gateway/base/retry"
	"svc/gateway/mcp"
)

// TestDescriptorsDoNotCount: a gateway without free descriptors does not open the breaker of a
// guardrail that it cannot call.
func TestDescriptorsDoNotCount(t *testing.T) {
	e, l := open(t, "http://127.0.0.1:9/", nil, func(cfg *Config) { cfg.Breaker.FailureThreshold = 1 })
	e.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	}
	if r := e.Ask(t.Context(), message(t, envelope), new(mcp.Message)); r.Verdict != FailClosed || !strings.Contains(l.String(), "too many open files") {
		t.Fatalf("%+v, log %s", r, l)
	}
	if e.breaker.Open() {
		t.Error("the breaker counts a failure of the gateway")
	}
}

// TestBreakerOfAnEndpoint: calls that the breaker skips are not sent and not logged one by one,
// and the endpoint is called again when the window ends.
func TestBreakerOfAnEndpoint(t *testing.T) {
	var calls atomic.Int32
	var good atomic.Bool
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		if !good.Load() {
			w.WriteHeader(503)
		}
		io.WriteString(w, `{"action":"pass"}`)
	})
	var now clock
	e, l := open(t, url, now.now, nil)
	m := message(t, envelope)
	ask := func(n int, want Verdict) {
		t.Helper()
		for range n {
			if r := e.Ask(t.Context(), m, new(mcp.Message)); r.Verdict != want {
				t.Fatalf("%+v, want %s", r, want)
			}
		}
	}
	reached := func(want int32) {
		t.Helper()
		if n := calls.Swap(0); n != want {
			t.Fatalf("%d calls of the endpoint, want %d", n, want)
		}
	}
	opened := func(want int) {
		t.Helper()
		if n := strings.Count(l.String(), "breaker opened"); n != want {
			t.Fatalf("%d windows logged, want %d: %s", n, want, l)
		}
	}
	ask(50, FailClosed)
	reached(5)
	opened(1)
	if n := strings.Count(l.String(), "callout failed"); n != 1 {
		t.Errorf("%d failures logged, want one line in a minute", n)
	}
	now.advance(5*time.Second - 1)
	ask(10, FailClosed)
	reached(0)
	now.advance(1)
	ask(10, FailClosed) // the probe fails: another window
	reached(1)
	opened(1) // at most one line in a minute, with the number of openings
	now.advance(time.Minute)
	ask(10, FailClosed)
	reached(1)
	opened(2)
	if text := l.String(); !strings.Contains(text, "times=2") || !strings.Contains(text, "failures=6") {
		t.Errorf("the lines of the second minute have no counts:\n%s", text)
	}
	good.Store(true)
	now.advance(5 * time.Second)
	ask(10, Pass)
	reached(10)
	opened(2)
}

// TestBreakerAdmitsOneProbeOfMany: of many concurrent calls at the end of the window, one reaches
// the endpoint.
func TestBreakerAdmitsOneProbeOfMany(t *testing.T) {
	var calls atomic.Int32
	var good atomic.Bool
	release := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		if !good.Load() {
			w.WriteHeader(500)
			return
		}
		<-release
		io.WriteString(w, `{"action":"pass"}`)
	})
	var now clock
	e, _ := open(t, url, now.now, func(c *Config) { c.Breaker.FailureThreshold = 1; c.Timeout = 10 * time.Second })
	m := message(t, envelope)
	e.Ask(t.Context(), m, new(mcp.Message))
	good.Store(true)
	calls.Store(0)
	now.advance(5 * time.Second)
	verdicts := make(chan Verdict, 20)
	for range 20 {
		go func() { verdicts <- e.Ask(t.Context(), m, new(mcp.Message)).Verdict }()
	}
	for range 19 {
		if v := <-verdicts; v != FailClosed {
			t.Errorf("%s during the probe", v)
		}
	}
	close(release)
	if v := <-verdicts; v != Pass || calls.Load() != 1 {
		t.Errorf("probe: %s, %d calls", v, calls.Load())
	}
}

// TestCancellationsDoNotCount: the breaker's state does not change when a caller disconnects,
// also when its call is the probe.
func TestCancellationsDoNotCount(t *testing.T) {
	arrived := make(chan struct{})
	var good atomic.Bool
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if good.Load() {
			io.WriteString(w, `{"action":"pass"}`)
			return
		}
		io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	var now clock
	e, l := open(t, url, now.now, func(c *Config) { c.Breaker.FailureThreshold = 1; c.Timeout = 10 * time.Second; c.FailOpen = true })
	leave := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		if r := e.Ask(ctx, message(t, envelope), new(mcp.Message)); r.Verdict != CallerGone || r.Kind != "" {
			t.Fatalf("%+v", r)
		}
	}
	for range 3 {
		leave()
	}
	if l.String() != "" {
		t.Errorf("logged: %s", l)
	}
	era, _ := e.breaker.Allow(now.now())
	e.breaker.Report(era, retry.Failed, now.now())
	now.advance(5 * time.Second)
	leave() // as the probe
	good.Store(true)
	if r := e.Ask(t.Context(), message(t, envelope), new(mcp.Message)); r.Verdict != Pass {
		t.Errorf("the probe's slot was lost: %+v", r)
	}
}

// TestReloadStartsClosed: a new set of the same configuration has none of the state of the
// previous breakers.
func TestReloadStartsClosed(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	c := Config{Name: "dlp", URL: url}
	c.SetDefaults()
	c.Breaker = retry.Config{FailureThreshold: 1, OpenDuration: time.Minute}
	for range 2 {
		set, err := New([]Config{c}, slog.New(slog.DiscardHandler), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		e := set.Get("dlp")
		if _, ok := e.breaker.Allow(time.Now()); !ok {
			t.Fatal("not closed")
		}
		e.Ask(t.Context(), message(t, envelope), new(mcp.Message))
		if _, ok := e.breaker.Allow(time.Now()); ok {
			t.Fatal("not opened")
		}
	}
}
