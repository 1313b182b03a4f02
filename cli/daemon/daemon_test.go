package daemon

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, closing) }

// closing ignores the goroutine of a connection that net/http keeps half open for half a second after a
// response that left a part of the request unread.
var closing = goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")

// running is a daemon under test with one server on a free port.
type running struct {
	url     string
	signals chan os.Signal
	done    chan error
}

func start(t *testing.T, opts Options, h http.Handler, add ...func(*Daemon)) *running {
	t.Helper()
	r := &running{signals: make(chan os.Signal, 4), done: make(chan error, 1)}
	opts.Signals = r.signals
	d := New(opts)
	addr, err := d.Listen("test", "127.0.0.1:0", h, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.url = BaseURL(addr, false)
	for _, f := range add {
		f(d)
	}
	go func() { r.done <- d.Run(context.Background()) }()
	return r
}

func (r *running) stop(t *testing.T) error {
	t.Helper()
	r.signals <- syscall.SIGTERM
	return r.wait(t)
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the daemon did not stop")
		return nil
	}
}

func get(t *testing.T, url string) (int, string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }

func TestServesAndStops(t *testing.T) {
	r := start(t, Options{}, http.HandlerFunc(ok))
	if code, body, err := get(t, r.url); err != nil || code != 200 || body != "ok" {
		t.Fatalf("got %d %q %v, want 200 ok", code, body, err)
	}
	if err := r.stop(t); err != nil {
		t.Fatalf("Run: %v, want nil after one signal", err)
	}
	if _, _, err := get(t, r.url); err == nil {
		t.Fatal("the address still answers after the stop")
	}
}

func TestStopsWithContext(t *testing.T) {
	d := New(Options{})
	if _, err := d.Listen("test", "127.0.0.1:0", http.HandlerFunc(ok), nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Run(ctx); err != nil {
		t.Fatalf("Run: %v, want nil", err)
	}
}

func TestPortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	d := New(Options{})
	defer d.Close()
	_, err = d.Listen("test", ln.Addr().String(), http.HandlerFunc(ok), nil)
	if err == nil || !strings.Contains(err.Error(), "the address is in use") || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Fatalf("got %v, want an error that names the address and says it is in use", err)
	}
}

func TestReload(t *testing.T) {
	var calls atomic.Int32
	entered, release := make(chan struct{}, 8), make(chan struct{})
	r := start(t, Options{Reload: func(context.Context) error {
		entered <- struct{}{}
		<-release
		calls.Add(1)
		return errors.New("refused")
	}}, http.HandlerFunc(ok))

	r.signals <- syscall.SIGHUP
	<-entered
	// Two more signals during the first reload lead to one more reload.
	r.signals <- syscall.SIGHUP
	r.signals <- syscall.SIGHUP
	for len(r.signals) > 0 {
		time.Sleep(time.Millisecond)
	}
	release <- struct{}{}
	<-entered
	release <- struct{}{}
	if code, _, err := get(t, r.url); err != nil || code != 200 {
		t.Fatalf("after a refused reload: got %d %v, want 200", code, err)
	}
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	if got := calls.Load(); got != 2 {
		t.Errorf("reload called %d times, want 2", got)
	}
}

func TestCloseOrderAndErrors(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, s)
	}
	boom := errors.New("disk full")
	r := start(t, Options{}, http.HandlerFunc(ok), func(d *Daemon) {
		d.OnClose("store", func() error { note("store"); return boom })
		d.OnClose("audit", func() error { note("audit"); return errors.New("late") })
		d.Go("reporter", func(ctx context.Context) error {
			<-ctx.Done()
			note("reporter")
			return ctx.Err()
		})
	})
	err := r.stop(t)
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "close store: disk full") || !strings.Contains(err.Error(), "close audit: late") {
		t.Errorf("Run: %v, want both errors with their names", err)
	}
	if want := []string{"reporter", "audit", "store"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

// A part may use the parts added before it until it has stopped: the background
// work here still reaches the first server while it stops.
func TestPartsStopInReverse(t *testing.T) {
	var last atomic.Int32
	r := start(t, Options{}, http.HandlerFunc(ok), func(d *Daemon) {
		first := d.parts[0].(*server)
		d.Go("reporter", func(ctx context.Context) error {
			<-ctx.Done()
			code, _, err := get(t, BaseURL(first.ln.Addr(), false))
			last.Store(int32(code))
			return err
		})
		if _, err := d.Listen("second", "127.0.0.1:0", http.HandlerFunc(ok), nil); err != nil {
			t.Fatal(err)
		}
	})
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	if got := last.Load(); got != 200 {
		t.Errorf("the last request of the work got %d, want 200", got)
	}
}

func TestCloseWithoutRun(t *testing.T) {
	closed := false
	d := New(Options{})
	d.OnClose("store", func() error { closed = true; return nil })
	addr, err := d.Listen("test", "127.0.0.1:0", http.HandlerFunc(ok), nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Go("work", func(context.Context) error { return errors.New("never started") })
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if !closed {
		t.Error("the closer did not run")
	}
	ln, err := net.Listen("tcp", addr.String())
	if err != nil {
		t.Fatalf("the address is still bound: %v", err)
	}
	ln.Close()
}

func TestFailureOfWorkStops(t *testing.T) {
	boom := errors.New("offset file is broken")
	r := start(t, Options{}, http.HandlerFunc(ok), func(d *Daemon) {
		d.Go("reporter", func(context.Context) error { return boom })
	})
	if err := r.wait(t); !errors.Is(err, boom) || !strings.HasPrefix(err.Error(), "reporter: ") {
		t.Fatalf("Run: %v, want the failure with its name", err)
	}
}

func TestWorkThatDoesNotEndIsLeft(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	r := start(t, Options{CloseTimeout: 50 * time.Millisecond}, http.HandlerFunc(ok), func(d *Daemon) {
		d.Go("stuck", func(context.Context) error { <-release; return nil })
	})
	if err := r.stop(t); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Fatalf("Run: %v, want it to say that background work did not end", err)
	}
}

// flakyListener fails its first accepts, like a process without free file
// descriptors.
type flakyListener struct {
	net.Listener
	failures atomic.Int32
}

func (l *flakyListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestAcceptSurvivesExhaustedDescriptors: a server without free descriptors says so in its log,
// once a minute however often it tries, and serves as soon as there are some.
func TestAcceptSurvivesExhaustedDescriptors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	flaky := &flakyListener{Listener: ln}
	flaky.failures.Store(3)
	signals := make(chan os.Signal, 1)
	var out bytes.Buffer // read after Run has returned
	d := New(Options{Signals: signals, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	d.Serve("test", flaky, http.HandlerFunc(ok), nil)
	done := make(chan error, 1)
	go func() { done <- d.Run(context.Background()) }()
	if code, _, err := get(t, BaseURL(ln.Addr(), false)); err != nil || code != 200 {
		t.Fatalf("got %d %v, want 200 after the backoff", code, err)
	}
	signals <- syscall.SIGTERM
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "connections cannot be accepted") || !strings.Contains(text, "LimitNOFILE") {
		t.Errorf("the log has:\n%s\nwant one WARN with the cause", text)
	}
}

func TestHeaderLimit(t *testing.T) {
	r := start(t, Options{}, http.HandlerFunc(ok))
	req, err := http.NewRequest(http.MethodGet, r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Large", strings.Repeat("a", maxHeaderBytes+8<<10))
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d, want 431", resp.StatusCode)
	}
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
}

func TestNotify(t *testing.T) {
	socket := t.TempDir() + "/notify"
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	next := func() string {
		t.Helper()
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		buf := make([]byte, 4096)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	r := start(t, Options{
		NotifySocket: socket,
		Watchdog:     40 * time.Millisecond,
		Reload:       func(context.Context) error { return nil },
	}, http.HandlerFunc(ok))
	if got := next(); got != "READY=1" {
		t.Fatalf("first message %q, want READY=1", got)
	}
	if got := next(); got != "WATCHDOG=1" {
		t.Fatalf("then %q, want WATCHDOG=1", got)
	}
	r.signals <- syscall.SIGHUP
	for {
		got := next()
		if got == "WATCHDOG=1" {
			continue
		}
		lines := bufio.NewScanner(strings.NewReader(got))
		lines.Scan()
		if lines.Text() != "RELOADING=1" || !strings.Contains(got, "MONOTONIC_USEC=") {
			t.Fatalf("on reload %q, want RELOADING=1 with the monotonic clock", got)
		}
		break
	}
	for next() != "READY=1" {
	}
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	for {
		if got := next(); got == "STOPPING=1" {
			break
		} else if got != "WATCHDOG=1" {
			t.Fatalf("at the end %q, want STOPPING=1", got)
		}
	}
	if err := (notifier{"relative"}).send("READY=1"); err == nil {
		t.Error("a relative socket path was accepted")
	}
}

// Calls use another server, but the shutdown is the same: requests in flight
// finish after a signal, and waiting ones are canceled at the end of the grace
// time.
func TestCalls(t *testing.T) {
	entered, release := make(chan string, 2), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch string(body) {
		case "slow":
			entered <- "slow"
			<-release
		case "stuck":
			entered <- "stuck"
			<-r.Context().Done()
		}
		fmt.Fprintf(w, "%T", w)
	})
	signals, done := make(chan os.Signal, 1), make(chan error, 1)
	d := New(Options{Signals: signals, Windows: func() (time.Duration, time.Duration) { return 0, 300 * time.Millisecond }})
	addr, err := d.Listen("test", "127.0.0.1:0", h, nil, Calls("/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- d.Run(context.Background()) }()
	post := func(path, body string) (string, error) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Post(BaseURL(addr, false)+path, "text/plain", strings.NewReader(body))
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	for path, want := range map[string]string{"/mcp": "*http1.response", "/other": "*http.response"} {
		if got, err := post(path, "x"); err != nil || got != want {
			t.Errorf("%s: answered by %s %v, want %s", path, got, err, want)
		}
	}
	answers := make(chan string, 2)
	for _, body := range []string{"slow", "stuck"} {
		go func() {
			got, err := post("/mcp", body)
			answers <- fmt.Sprint(body, " ", got, err != nil)
		}()
		<-entered
	}
	signals <- syscall.SIGTERM
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	if err := <-done; err != nil {
		t.Fatalf("Run: %v", err)
	}
	got := []string{<-answers, <-answers}
	slices.Sort(got)
	if want := []string{"slow *http1.responsefalse", "stuck *http1.responsefalse"}; !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
}
