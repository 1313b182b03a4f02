package daemon

import (
	"context"
	"errors"
	"fmt"
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
)

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
// context and can still respond, both in package http1 and in net/http.
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
	if err := r.wait(t); !errors.Is(err, errForced) {
		t.Fatalf("Run: %v, want ErrForced", err)
	}
}

// A supervisor sends SIGTERM to the process and to its group: the second one at the same moment cuts
// no requests.
func TestARepeatedSIGTERMIsOneStop(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	drained := make(chan struct{})
	r := start(t, Options{
		Drain:   func() { close(drained) },
		Windows: func() (time.Duration, time.Duration) { return 0, time.Hour },
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		select {
		case <-release:
			ok(w, r)
		case <-r.Context().Done():
		}
	}), func(d *Daemon) { d.repeated = time.Hour })
	answer := make(chan error, 1)
	go func() {
		_, body, err := get(t, r.url)
		if err == nil && body != "ok" {
			err = fmt.Errorf("the body is %q", body)
		}
		answer <- err
	}()
	<-entered
	r.signals <- syscall.SIGTERM
	<-drained
	for range 2 * cap(r.signals) { // all but the last ones were read
		r.signals <- syscall.SIGTERM
	}
	close(release)
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if err := r.wait(t); err != nil {
		t.Errorf("Run: %v, want nil", err)
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
