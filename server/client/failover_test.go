package client

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc/store/api"
)

// hosts is a transport with a status for each host; 0 means no response.
type hosts struct {
	status map[string]int
	mu     sync.Mutex
	asked  []string
	ids    []string
	keys   []string
}

func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, r.URL.Host+r.URL.Path)
	h.ids = append(h.ids, r.Header.Get("Svc-Batch-Id"))
	h.keys = append(h.keys, r.Header.Get("Idempotency-Key"))
	status := h.status[r.URL.Host]
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewBufferString(`{"data":{"accepted":1}}`))}, nil
}

func (h *hosts) took() []string {
	asked := h.asked
	h.asked = nil
	return asked
}

// When a control plane fails, the request is sent to the next one with the same id.
// The client uses that one for a minute and returns when the first is ready again.
func TestAClientMovesToTheNextControlPlaneAndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hosts{status: map[string]int{"a": 200, "b": 200}}
		var moves []string
		c := New("http://a/", "k", WithTransport(h), WithOthers(func(from, to string, _ error) { moves = append(moves, from+" "+to) }, "http://b/api"))
		post := func() {
			t.Helper()
			if _, err := c.PostTraceBatch(t.Context(), "batch 1", []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		expect := func(want ...string) {
			t.Helper()
			if got := h.took(); !slices.Equal(got, want) {
				t.Errorf("asked %v, want %v", got, want)
			}
		}
		post()
		expect("a/api/traces")
		h.status["a"] = 503
		post()
		expect("a/api/traces", "b/api/traces")
		h.status["a"] = 0
		<-time.After(59 * time.Second)
		post()
		expect("b/api/traces")
		<-time.After(time.Second)
		post() // checks, and the first is not ready
		slices.Sort(h.asked)
		expect("a/readyz", "b/api/traces")
		h.status["a"] = 200
		<-time.After(59 * time.Second)
		post()
		expect("b/api/traces")
		<-time.After(time.Second)
		post()
		slices.Sort(h.asked)
		expect("a/readyz", "b/api/traces")
		post()
		expect("a/api/traces")
		if want := []string{"http://a http://b", "http://b http://a"}; !slices.Equal(moves, want) {
			t.Errorf("moves %v, want %v", moves, want)
		}
		for _, id := range h.ids {
			if id != "batch 1" && id != "" {
				t.Errorf("batch id %q", id)
			}
		}
	})
}

// An error that another control plane would return as well causes no failover, and
// neither does a canceled request.
func TestAClientStaysWithAControlPlaneThatAnswers(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 409, 413, 429} {
		h := &hosts{status: map[string]int{"a": status, "b": 200}}
		c := New("http://a", "k", WithTransport(h), WithOthers(nil, "http://b"))
		var answer *Error
		if _, err := c.PostTraces(t.Context(), nil); !errors.As(err, &answer) || answer.Status != status || len(h.asked) != 1 {
			t.Errorf("status %d: %v after %v", status, err, h.asked)
		}
	}
}

// When all fail, each is tried once, the error is that of the last one, and the
// Idempotency-Key is the same everywhere.
func TestEachControlPlaneIsAskedOnce(t *testing.T) {
	h := &hosts{status: map[string]int{"a": 500, "b": 0, "c": 503}}
	c := New("http://a", "k", WithTransport(h), WithOthers(nil, "http://b", "http://c"))
	var answer *Error
	if _, err := c.CreateKey(t.Context(), api.KeyCreate{Name: "x"}, IdempotencyKey("n")); !errors.As(err, &answer) || answer.Status != 503 {
		t.Errorf("error %v", err)
	}
	if len(h.asked) != 3 || !slices.Equal(h.keys, []string{"n", "n", "n"}) {
		t.Errorf("asked %v with the names %v", h.asked, h.keys)
	}
	h.took()
	if _, err := c.PostTraces(t.Context(), nil); err == nil || len(h.took()) != 1 {
		t.Error("traces without a batch were sent twice")
	}
}
