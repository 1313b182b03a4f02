package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

// Readiness becomes false at once, connections are still accepted during the drain
// window, and a request in flight may finish after it.
func TestDrainOrder(t *testing.T) {
	var draining atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		io.WriteString(w, "finished")
	})
	drained := make(chan struct{})
	r := start(t, Options{
		Drain:   func() { draining.Store(true); close(drained) },
		Windows: func() (time.Duration, time.Duration) { return 300 * time.Millisecond, 10 * time.Second },
	}, mux)

	slow := make(chan string, 1)
	go func() {
		_, body, err := get(t, r.url+"/slow")
		slow <- fmt.Sprint(body, err)
	}()
	<-entered
	r.signals <- syscall.SIGTERM
	<-drained
	if code, _, err := get(t, r.url+"/readyz"); err != nil || code != 503 {
		t.Fatalf("in the drain window: got %d %v, want 503 on a new connection", code, err)
	}
	for {
		if _, _, err := get(t, r.url+"/readyz"); err != nil {
			break // the window is over: no connections are accepted
		}
		time.Sleep(10 * time.Millisecond)
	}
	close(release)
	if got := <-slow; got != "finished<nil>" {
		t.Fatalf("request in flight: got %q, want it finished", got)
	}
	if err := r.wait(t); err != nil {
		t.Fatal(err)
	}
}

// A request that is in flight at the end of the grace time gets the cause in its
// context and can still respond, both in package front and in net/http.
func TestRequestsCutAtTheEndOfGraceCanAnswer(t *testing.T) {
	cause := fmt.Errorf("going down: %w", context.Canceled)
	for _, opts := range [][]ListenOption{nil, {Calls("/mcp")}} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			entered := make(chan struct{})
			signals := make(chan os.Signal, 1)
			d := New(Options{Signals: signals, Windows: func() (time.Duration, time.Duration) { return 0, 100 * time.Millisecond }})
			addr, err := d.Listen("t", "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(entered)
				<-r.Context().Done()
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprint(w, context.Cause(r.Context()))
			}), nil, append(opts, CutCause(cause))...)
			if err != nil {
				t.Fatal(err)
			}
			ran := make(chan error, 1)
			go func() { ran <- d.Run(context.Background()) }()
			answered := make(chan string, 1)
			go func() { answered <- ask(method, BaseURL(addr, false)+"/mcp") }()
			<-entered
			signals <- syscall.SIGTERM
			if got := <-answered; got != "503 going down: context canceled" {
				t.Errorf("%s, %d options: %s", method, len(opts), got)
			}
			if err := <-ran; err != nil {
				t.Errorf("Run: %v, want nil: the configured time is over", err)
			}
		}
	}
}

// ask returns the status and the body of a response, or the error.
func ask(method, url string) string {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return err.Error()
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, body)
}

// The connection of a canceled request that does not respond is closed.
func TestRequestsThatDoNotAnswerAreCut(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := start(t, Options{CloseTimeout: 100 * time.Millisecond}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	}))
	cut := make(chan error, 1)
	go func() {
		_, _, err := get(t, r.url)
		cut <- err
	}()
	<-entered
	if err := r.stop(t); err != nil {
		t.Fatalf("Run: %v, want nil: the configured time is over", err)
	}
	if err := <-cut; err == nil {
		t.Fatal("the request was answered, want it cut")
	}
	close(release)
}

// A canceled request does not wait for the rest of its body.
func TestBodiesOfCutRequestsAreNotWaitedFor(t *testing.T) {
	for _, opts := range [][]ListenOption{nil, {Calls("/mcp")}} {
		entered := make(chan struct{})
		signals := make(chan os.Signal, 1)
		d := New(Options{Signals: signals})
		addr, err := d.Listen("t", "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			_, err := io.ReadAll(r.Body)
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "%v, deadline: %v", context.Cause(r.Context()), errors.Is(err, os.ErrDeadlineExceeded))
		}), nil, opts...)
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan error, 1)
		go func() { ran <- d.Run(context.Background()) }()
		c, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nhalf")
		<-entered
		signals <- syscall.SIGTERM
		got, _ := io.ReadAll(c)
		if !strings.HasPrefix(string(got), "HTTP/1.1 503 ") || !strings.HasSuffix(string(got), "the server stops: context canceled, deadline: true") {
			t.Errorf("%d options: %q", len(opts), got)
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
}

// OnRefusing ends long-lived requests when connections are no longer accepted;
// other requests in flight may finish.
func TestOnRefusingIsCalledWhenConnectionsAreRefused(t *testing.T) {
	for _, opts := range [][]ListenOption{nil, {Calls("/mcp")}} {
		entered, refusing := make(chan struct{}), make(chan struct{})
		signals := make(chan os.Signal, 1)
		d := New(Options{Signals: signals, Windows: func() (time.Duration, time.Duration) { return 0, time.Hour }})
		var addr net.Addr
		end := OnRefusing(func() {
			if c, err := net.Dial("tcp", addr.String()); err == nil {
				c.Close()
				t.Error("the address still takes connections")
			}
			close(refusing)
		})
		var err error
		addr, err = d.Listen("t", "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-refusing
			fmt.Fprint(w, "ended")
		}), nil, append(opts, end)...)
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan error, 1)
		go func() { ran <- d.Run(context.Background()) }()
		answered := make(chan string, 1)
		go func() { answered <- ask(http.MethodGet, BaseURL(addr, false)+"/mcp") }()
		<-entered
		signals <- syscall.SIGTERM
		if got := <-answered; got != "200 ended" {
			t.Error(got)
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	entered := make(chan struct{})
	drained := make(chan struct{})
	r := start(t, Options{
		Drain:   func() { close(drained) },
		Windows: func() (time.Duration, time.Duration) { return time.Hour, time.Hour },
	}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	go get(t, r.url)
	<-entered
	r.signals <- syscall.SIGINT
	<-drained
	r.signals <- syscall.SIGINT
	if err := r.wait(t); !errors.Is(err, ErrForced) {
		t.Fatalf("Run: %v, want ErrForced", err)
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

func TestAcceptSurvivesExhaustedDescriptors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	flaky := &flakyListener{Listener: ln}
	flaky.failures.Store(3)
	signals := make(chan os.Signal, 1)
	d := New(Options{Signals: signals})
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
	for path, want := range map[string]string{"/mcp": "*front.response", "/other": "*http.response"} {
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
	if want := []string{"slow *front.responsefalse", "stuck *front.responsefalse"}; !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
}

// A request that is canceled at the end of the grace time finishes its work before
// the parts that it uses are closed.
func TestCutRequestsEndBeforeClosers(t *testing.T) {
	began, finished := make(chan struct{}), atomic.Bool{}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		close(began)
		<-r.Context().Done() // its connection is closed
		time.Sleep(200 * time.Millisecond)
		finished.Store(true)
	})
	d := New(Options{Windows: func() (time.Duration, time.Duration) { return 0, 10 * time.Millisecond }})
	d.OnClose("what requests use", func() error {
		if !finished.Load() {
			return errors.New("closed beneath a request")
		}
		return nil
	})
	addr, err := d.Listen("test", "127.0.0.1:0", h, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var asking sync.WaitGroup
	asking.Go(func() {
		if resp, err := client.Get("http://" + addr.String()); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
	<-began
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	asking.Wait()
}
