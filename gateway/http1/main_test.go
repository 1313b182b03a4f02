package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// net/http keeps a connection half open for half a second after a response that left part of
	// the request unread.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// running is a server under test.
type running struct {
	*Server
	addr string
	log  lines
}

// lines collects the log lines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start serves h until the end of the test; change may change the options.
func start(t testing.TB, h http.HandlerFunc, change ...func(*Options)) *running {
	t.Helper()
	r := &running{}
	opts := Options{
		Paths: []string{"/mcp"}, Handler: h, BodyGrace: 10 * time.Second, BodyRate: 16 << 10,
		Fallback: &http.Server{
			Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
			MaxHeaderBytes: 64 << 10, ErrorLog: log.New(&r.log, "", 0),
		},
	}
	for _, f := range change {
		f(&opts)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.Server, r.addr = NewServer(opts), ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- r.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
			r.Close()
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return r
}

// client is a raw connection to a server.
type client struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, c)
}

func newClient(t testing.TB, c net.Conn) *client {
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{Conn: c, t: t, r: bufio.NewReader(c)}
}

func dialTLS(t testing.TB, addr string, conf *tls.Config) *client {
	t.Helper()
	c, err := tls.Dial("tcp", addr, conf)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, c)
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, format, args...); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one response with its body.
func (c *client) answer() (*http.Response, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: "POST"})
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(body)
}

// ended fails the test unless the server has closed the connection.
func (c *client) ended() {
	c.t.Helper()
	if b, err := io.ReadAll(c.r); len(b) > 0 || errors.Is(err, errTimeout) {
		c.t.Fatalf("connection goes on with %q %v, want its end", b, err)
	}
}

var errTimeout = os.ErrDeadlineExceeded

// post is a request of the form that is served here.
func post(body string, lines ...string) string {
	return request(append([]string{"Host: a", fmt.Sprintf("Content-Length: %d", len(body))}, lines...)...) + body
}

// byFront reports whether this package runs the handler.
func byFront(w http.ResponseWriter) bool {
	_, ok := w.(*response)
	return ok
}

// echo responds with the body of the request and the server that runs the handler.
func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "front=%v %s %s %s", byFront(w), r.Method, r.URL.Path, b)
}
