package planecmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc/cli/process"
	"svc/cli/rest"
	"svc/server/client"
	"svc/store/api"
)

// After a temporary error a tail resumes after the last trace, and follows Retry-After; a
// permanent error ends it.
func TestTailReconnects(t *testing.T) {
	event := func(id string) string { return "id: c" + id + "\ndata: {\"id\":\"" + id + "\"}\n\n" }
	stream := func(text string) answer { return answer{status: 200, body: text} }
	limited := answer{status: 429, retry: "7", body: `{"error":"rate limit exceeded"}`}
	away := answer{status: 503, retry: "5", body: `{"error":"not available"}`}
	for _, row := range []struct {
		name    string
		answers []answer
		max     int
		shown   string // ids
		after   string // Last-Event-IDs of the requests
		waits   string
		fails   string
	}{
		{name: "a stream that ends", answers: []answer{stream("id: c0\n\n" + event("1")), stream(event("2") + event("3"))}, max: 3,
			shown: "1 2 3", after: "|c1", waits: "[1s]"},
		{name: "an event that was cut off comes again", answers: []answer{stream(event("1") + "id: c2\ndata: {\"id"), stream(event("2"))}, max: 2,
			shown: "1 2", after: "|c1", waits: "[1s]"},
		{name: "a place without a trace", answers: []answer{stream("id: c9\n\n"), stream(event("1"))}, max: 1, shown: "1", after: "|c9", waits: "[1s]"},
		{name: "the first answers limit the rate", answers: []answer{limited, away, stream(event("1"))}, max: 1, shown: "1", after: "||", waits: "[7s 5s]"},
		{name: "limited later", answers: []answer{stream(event("1")), limited, stream(event("2"))}, max: 2, shown: "1 2", after: "|c1|c1", waits: "[1s 7s]"},
		{name: "pauses grow while it is away", answers: []answer{stream(event("1")), {status: 502}, {status: 502}, {status: 500}, stream(event("2"))}, max: 2,
			shown: "1 2", after: "|c1|c1|c1|c1", waits: "[1s 2s 4s 8s]"},
		{name: "another history", answers: []answer{stream(event("1")), {status: 400, body: `{"error":"invalid input"}`}, stream(event("2"))}, max: 2,
			shown: "1 2", after: "|c1|", waits: "[1s 2s]"},
		{name: "the key is deleted", answers: []answer{stream(event("1")), {status: 401, body: `{"error":"missing or invalid API key"}`}}, max: 2,
			shown: "1", after: "|c1", waits: "[1s]", fails: "invalid API key"},
		{name: "a filter that is none", answers: []answer{{status: 400, body: `{"error":"invalid input"}`}}, after: "", waits: "[]", fails: "invalid input"},
		{name: "away at first", answers: []answer{{status: 502}}, after: "", waits: "[]", fails: "bad gateway"},
		{name: "a wait beyond reason", answers: []answer{{status: 429, retry: "86400"}}, after: "", waits: "[]", fails: "too many requests"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var after []string
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				after = append(after, r.Header.Get("Last-Event-ID"))
				if len(after) > len(row.answers) {
					t.Errorf("request %d", len(after))
					panic(http.ErrAbortHandler)
				}
				row.answers[len(after)-1].write(w)
			}))
			defer srv.Close()
			var shown []string
			waits := []time.Duration{}
			tail := tailOf(srv.URL, row.max)
			tail.show = func(tr api.TraceItem) error { shown = append(shown, tr.ID); return nil }
			tail.wait = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
			err := tail.run(t.Context())
			if row.fails == "" && err != nil || row.fails != "" && (err == nil || !strings.Contains(err.Error(), row.fails)) {
				t.Errorf("ends with %v, want %q", err, row.fails)
			}
			if got := strings.Join(shown, " "); got != row.shown {
				t.Errorf("shown %q, want %q", got, row.shown)
			}
			if got := strings.Join(after, "|"); got != row.after {
				t.Errorf("asked after %q, want %q", got, row.after)
			}
			if got := fmt.Sprint(waits); got != row.waits {
				t.Errorf("waited %s, want %s", got, row.waits)
			}
		})
	}
}

// A control plane that accepts the request and does not respond has the timeout of one
// request; before the first connection that is an error.
func TestTailDoesNotWaitForeverForAnAnswer(t *testing.T) {
	hang := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(hang)
	tail := tailOf(srv.URL, 0)
	tail.r.Timeout = 10 * time.Millisecond
	if err := tail.run(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ends with %v", err)
	}
}

// An output that cannot be written ends the tail, and is not treated as a lost
// connection.
func TestTailEndsWhenItsOutputDoes(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer{status: 200, body: "id: c1\ndata: {\"id\":\"1\"}\n\n"}.write(w)
	}))
	defer srv.Close()
	tail := tailOf(srv.URL, 0)
	tail.show = func(api.TraceItem) error { return syscall.EPIPE }
	tail.wait = func(context.Context, time.Duration) error { t.Error("it reconnects"); return io.EOF }
	if err := tail.run(t.Context()); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("ends with %v", err)
	}
}

// answer is one response of the control plane.
type answer struct {
	status      int
	retry, body string
}

func (a answer) write(w http.ResponseWriter) {
	if a.retry != "" {
		w.Header().Set("Retry-After", a.retry)
	}
	if a.status == http.StatusOK {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

func tailOf(url string, most int) *traceTail {
	r := &rest.Connection{Env: process.Env{Stderr: &bytes.Buffer{}}}
	return &traceTail{r: r, max: most, open: client.New(url, "k").StreamTraces, wait: rest.Wait}
}
