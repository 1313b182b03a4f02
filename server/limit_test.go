package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRateWindowEdge(t *testing.T) {
	for _, tc := range []struct {
		name string
		at   time.Duration // wait of the 61st request after 60 at once
		want bool
	}{
		{"same instant", 0, false},
		{"one nanosecond before the minute is over", time.Minute - 1, false},
		{"exactly one minute later", time.Minute, true},
		{"later", time.Hour, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ws := newWindows(60, 0)
			for i := range 60 {
				q := ws.take("t", epoch)
				if !q.allowed || q.remaining != 59-i {
					t.Fatalf("request %d: allowed %v, remaining %d", i+1, q.allowed, q.remaining)
				}
			}
			q := ws.take("t", epoch.Add(tc.at))
			if q.allowed != tc.want {
				t.Fatalf("61st request after %s: allowed %v, want %v", tc.at, q.allowed, tc.want)
			}
			if !q.allowed {
				if want := time.Minute - tc.at; q.wait != want || q.remaining != 0 {
					t.Errorf("wait %s, want %s; remaining %d, want 0", q.wait, want, q.remaining)
				}
				if want := epoch.Add(time.Minute); !q.reset.Equal(want) {
					t.Errorf("reset %s, want %s", q.reset, want)
				}
			}
		})
	}
}

// TestRateWindowSlides: the window slides and is no fixed minute. Half of the
// limit at the end of one minute and half at the beginning of the next add up.
func TestRateWindowSlides(t *testing.T) {
	ws := newWindows(60, 0)
	for range 30 {
		ws.take("t", epoch)
	}
	for range 30 {
		ws.take("t", epoch.Add(50*time.Second))
	}
	if ws.take("t", epoch.Add(59*time.Second)).allowed {
		t.Error("61st request within 59 s was allowed")
	}
	for i := range 30 {
		if !ws.take("t", epoch.Add(61*time.Second)).allowed {
			t.Fatalf("request %d after the first 30 left was refused", i)
		}
	}
	if ws.take("t", epoch.Add(61*time.Second)).allowed {
		t.Error("31st request was allowed while 30 are still in the window")
	}
}

// TestRateWindowRefusedDoNotCount: rejected requests do not prolong the wait.
func TestRateWindowRefusedDoNotCount(t *testing.T) {
	ws := newWindows(1, 0)
	ws.take("t", epoch)
	for i := range 50 {
		if ws.take("t", epoch.Add(time.Duration(i)*time.Second)).allowed {
			t.Fatalf("allowed after %d s", i)
		}
	}
	if !ws.take("t", epoch.Add(time.Minute)).allowed {
		t.Error("refused after a minute: refused requests were counted")
	}
}

func TestRateWindowPerTenant(t *testing.T) {
	ws := newWindows(1, 0)
	if !ws.take("a", epoch).allowed || !ws.take("b", epoch).allowed {
		t.Error("two tenants share a window")
	}
}

// TestRateWindowConcurrentEdge: of many concurrent requests exactly the limit
// is accepted, in any interleaving; and again a minute later.
func TestRateWindowConcurrentEdge(t *testing.T) {
	ws := newWindows(60, 0)
	for round := range 3 {
		now := epoch.Add(time.Duration(round) * time.Minute)
		var allowed atomic.Int64
		remaining := make([]atomic.Int64, 60)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					if q := ws.take("t", now); q.allowed {
						allowed.Add(1)
						remaining[q.remaining].Add(1)
					}
				}
			})
		}
		wg.Wait()
		if got := allowed.Load(); got != 60 {
			t.Fatalf("round %d: %d of 400 allowed, want exactly 60", round, got)
		}
		for left := range remaining {
			if n := remaining[left].Load(); n != 1 {
				t.Errorf("round %d: remaining %d was told %d times, want once", round, left, n)
			}
		}
	}
}

// TestRateWindowAgreesWithModel compares the window with a list of all accepted
// requests.
func TestRateWindowAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		ws := newWindows(limit, 0)
		now := epoch
		var accepted []time.Time
		for i := range rapid.IntRange(1, 60).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30_000).Draw(t, fmt.Sprint("gap", i))) * time.Millisecond)
			inWindow := 0
			for _, a := range accepted {
				if now.Sub(a) < time.Minute {
					inWindow++
				}
			}
			q := ws.take("t", now)
			if want := inWindow < limit; q.allowed != want {
				t.Fatalf("request %d: allowed %v with %d of %d in the window", i, q.allowed, inWindow, limit)
			}
			if q.allowed {
				accepted = append(accepted, now)
				inWindow++
			}
			if q.remaining != limit-inWindow {
				t.Fatalf("request %d: remaining %d, want %d", i, q.remaining, limit-inWindow)
			}
			if !q.reset.After(now) || q.reset.Sub(now) > time.Minute {
				t.Fatalf("request %d: reset %s after now", i, q.reset.Sub(now))
			}
		}
	})
}

// TestRateWindowClockStep: when the clock steps back, no client is locked out
// for the size of the step, and used requests still count.
func TestRateWindowClockStep(t *testing.T) {
	ws := newWindows(2, 0)
	ws.take("t", epoch)
	ws.take("t", epoch.Add(30*time.Second))
	back := epoch.Add(-time.Hour)
	if ws.take("t", back).allowed {
		t.Error("a step back gave the window free")
	}
	if !ws.take("t", back.Add(30*time.Second)).allowed {
		t.Error("the first request has not left the window 60 s after it")
	}
	if ws.take("t", back.Add(30*time.Second)).allowed {
		t.Error("the second request left the window with the first")
	}
	if !ws.take("t", epoch.Add(24*time.Hour)).allowed {
		t.Error("a step forward left the window full")
	}
}

// TestAddressWindowsBounded: an address does not get a fresh window when more
// addresses than the bound send requests; empty windows are evicted.
func TestAddressWindowsBounded(t *testing.T) {
	ws := newWindows(1, 3)
	for _, a := range []string{"a", "b", "c"} {
		ws.take(a, epoch)
	}
	if !ws.take("d", epoch).allowed {
		t.Error("the first of those that share was refused")
	}
	if ws.take("e", epoch).allowed {
		t.Error("a second one in the shared window was allowed")
	}
	if ws.take("a", epoch).allowed {
		t.Error("a's window was forgotten while it was full")
	}
	if n := ws.recent.Len(); n != 3 || len(ws.byName) != 3 {
		t.Errorf("%d windows kept, want 3", n)
	}
	later := epoch.Add(time.Minute)
	if !ws.take("f", later).allowed || !ws.take("g", later).allowed {
		t.Error("idle windows did not make room")
	}
	if n := len(ws.byName); n != 3 {
		t.Errorf("%d windows kept, want 3", n)
	}
}

// TestWindowMemory: a window allocates no more memory than its limit needs.
func TestWindowMemory(t *testing.T) {
	ws := newWindows(100, 0)
	now := epoch
	for range 100_000 {
		now = now.Add(time.Second)
		ws.take("t", now)
	}
	if w := ws.find("t", now); cap(w.at) > 1024 {
		t.Errorf("window of 100 has room for %d", cap(w.at))
	}
}

func TestClientAddress(t *testing.T) {
	for _, tc := range []struct{ name, remote, want string }{
		{"IPv4", "192.0.2.7:1234", "192.0.2.7"},
		{"IPv4 mapped in IPv6", "[::ffff:192.0.2.7]:1234", "192.0.2.7"},
		{"IPv6 counts as its /64", "[2001:db8:1:2:3:4:5:6]:1234", "2001:db8:1:2::/64"},
		{"zone is dropped", "[fe80::1%eth0]:1234", "fe80::/64"},
		{"no address", "@", "@"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tc.remote, Header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}}
			if got := clientAddress(r); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRateHeaders(t *testing.T) {
	h := http.Header{}
	setRateHeaders(h, quota{allowed: true, limit: 60, remaining: 59, reset: epoch.Add(time.Millisecond)})
	for name, want := range map[string]string{
		"X-RateLimit-Limit":     "60",
		"X-RateLimit-Remaining": "59",
		"X-RateLimit-Reset":     fmt.Sprint(epoch.Unix() + 1), // rounded up, so that waiting for it is enough
		"Retry-After":           "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	h = http.Header{}
	setRateHeaders(h, quota{limit: 60, reset: epoch, wait: 1500 * time.Millisecond})
	if got := h.Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After is %q, want 2", got)
	}
	setRateHeaders(h, quota{limit: 60, reset: epoch, wait: 1})
	if got := h.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After is %q, want 1", got)
	}
}

func BenchmarkRateWindow(b *testing.B) {
	ws := newWindows(60, 0)
	now := epoch
	for b.Loop() {
		now = now.Add(time.Second)
		ws.take("t", now)
	}
}

// identifiedWriter is the writer of a connection that has few streams of HTTP/2 until one of its
// requests was identified.
type identifiedWriter struct {
	*httptest.ResponseRecorder
	identified int
}

func (w *identifiedWriter) Identified() { w.identified++ }

// A connection gets more streams of HTTP/2 by a request with a valid key alone.
func TestAConnectionIsIdentifiedByAKey(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		path, key string
		want      int
	}{{"/healthz", "", 0}, {"/readyz", r.admin, 0}, {"/api/agents", "", 0}, {"/api/agents", r.admin + "x", 0}, {"/api/agents", r.admin, 1}} {
		req := httptest.NewRequest(http.MethodGet, tt.path, nil)
		req.Header.Set("Authorization", "Bearer "+tt.key)
		w := &identifiedWriter{ResponseRecorder: httptest.NewRecorder()}
		r.srv.ServeHTTP(w, req)
		if w.identified != tt.want {
			t.Errorf("%s with key %q: identified %d times, want %d (%d)", tt.path, tt.key, w.identified, tt.want, w.Code)
		}
	}
}
