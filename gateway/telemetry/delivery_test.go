package telemetry

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// 429 and 5xx are retried, not before Retry-After.
func TestRetry(t *testing.T) {
	for _, status := range []int{429, 500, 502, 503, 504} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			var first, second time.Time
			c.answer = func(n int, w http.ResponseWriter) {
				if n == 1 {
					first = time.Now()
					w.Header().Set("Retry-After", "1")
					w.WriteHeader(status)
					return
				}
				second = time.Now()
			}
			tr, stop := start(t, Options{}, Config{Name: "c", Endpoint: c.URL, ServiceName: "s", SampleRatio: 1})
			record(tr, nil)
			deadline := time.Now().Add(20 * time.Second)
			for tr.Stats()[0].Exported == 0 && time.Now().Before(deadline) {
				time.Sleep(10 * time.Millisecond)
			}
			stop()
			if spans, calls := c.count(); spans != 1 || calls != 2 {
				t.Fatalf("%d spans in %d calls", spans, calls)
			}
			if wait := second.Sub(first); wait < time.Second {
				t.Errorf("tried again after %v", wait)
			}
		})
	}
}

// An endpoint that never recovers is given up after a bounded number of attempts.
func TestRetryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := New([]Config{{Name: "c", Endpoint: "http://h", ServiceName: "s", SampleRatio: 1}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		calls := 0
		p := tr.pipelines[0]
		p.client.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			calls++
			return &http.Response{StatusCode: 503, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		})
		record(tr, nil)
		begun := time.Now()
		p.send(t.Context(), attempts)
		if calls != attempts || p.failed.Load() != 1 || time.Since(begun) > retryFor {
			t.Errorf("%d tries in %v, %d failed", calls, time.Since(begun), p.failed.Load())
		}
		if p.pending != 0 {
			t.Error("the batch is kept")
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An endpoint that hangs does not delay requests: the queue is bounded, dropped
// spans are counted, and the shutdown waits for a bounded time.
func TestHangingEndpoint(t *testing.T) {
	release := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hang.Close()
	defer close(release)
	tr, stop := start(t, Options{}, Config{Name: "c", Endpoint: hang.URL, ServiceName: "s", SampleRatio: 1})
	const n = 3 * shards * shardSpans
	var slowest time.Duration
	begun := time.Now()
	for range n {
		at := time.Now()
		record(tr, nil)
		slowest = max(slowest, time.Since(at))
	}
	if took := time.Since(begun); took > 30*time.Second || slowest > time.Second {
		t.Errorf("recording took %v, the slowest %v", took, slowest)
	}
	s := tr.Stats()[0]
	if s.Dropped == 0 || s.Queued > shards*shardSpans || int(s.Dropped)+s.Queued+maxBatch < n {
		t.Errorf("%+v", s)
	}
	at := time.Now()
	stop()
	if took := time.Since(at); took > shutdownTimeout+2*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// Partial success is counted.
func TestPartialSuccess(t *testing.T) {
	c := newCollector(t)
	c.answer = func(_ int, w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/x-protobuf")
		body, _ := proto.Marshal(&collectorpb.ExportTraceServiceResponse{PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 2, ErrorMessage: "no"}})
		w.Write(body)
	}
	tr, stop := start(t, Options{}, Config{Name: "c", Endpoint: c.URL, ServiceName: "s", SampleRatio: 1})
	record(tr, nil)
	stop()
	if s := tr.Stats()[0]; s.Rejected != 2 || s.Exported != 1 {
		t.Errorf("%+v", s)
	}
}

// A redirect is not followed: the headers may contain a credential.
func TestRedirectIsNotFollowed(t *testing.T) {
	elsewhere := newCollector(t)
	c := newCollector(t)
	c.answer = func(_ int, w http.ResponseWriter) {
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(307)
	}
	var logs syncBuffer
	tr, stop := start(t, Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))},
		Config{Name: "c", Endpoint: c.URL, Headers: map[string]string{"X-Key": "k"}, ServiceName: "s", SampleRatio: 1})
	record(tr, nil)
	stop()
	if _, calls := elsewhere.count(); calls != 0 || tr.Stats()[0].Failed != 1 {
		t.Errorf("%d calls elsewhere, %+v", calls, tr.Stats()[0])
	}
	if want := "status 307, which redirects to " + elsewhere.URL + ":"; !strings.Contains(logs.String(), want) {
		t.Errorf("%s, want %q", logs.String(), want)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "0": 0, "x": 0, "99999999": 24 * time.Hour,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", text, got, want)
		}
	}
}
