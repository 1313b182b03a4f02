package server

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// otherWindows are shared windows in which other processes have counted requests.
type otherWindows struct {
	count int
	names []string
	fail  error
}

func (o *otherWindows) Take(_ context.Context, name string, limit int, _ time.Duration) (bool, int, time.Duration, error) {
	o.names = append(o.names, name)
	if o.fail != nil {
		return false, 0, 0, o.fail
	}
	if o.count >= limit {
		return false, o.count, 20 * time.Second, nil
	}
	o.count++
	return true, o.count, 0, nil
}

func (o *otherWindows) Failing() bool    { return o.fail != nil }
func (o *otherWindows) Failures() uint64 { return 7 }

// Requests that other processes accepted count. When the shared windows fail, this
// process uses the requests that it accepted itself, and the metrics report it.
func TestSharedWindowsDecide(t *testing.T) {
	shared := &otherWindows{count: 7}
	r := newRig(t, func(o *Options) { o.RateLimit, o.Windows = 10, shared })
	get := func(wantStatus int, wantRemaining string) {
		t.Helper()
		w := httptest.NewRecorder()
		req := httptest.NewRequest("GET", "/api/agents", nil)
		req.Header.Set("Authorization", "Bearer "+r.admin)
		r.srv.ServeHTTP(w, req)
		if w.Code != wantStatus || w.Header().Get("X-RateLimit-Remaining") != wantRemaining {
			t.Errorf("status %d, remaining %s, want %d, %s", w.Code, w.Header().Get("X-RateLimit-Remaining"), wantStatus, wantRemaining)
		}
		if w.Code == 429 && w.Header().Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
	}
	metric := func(want string) {
		t.Helper()
		w := httptest.NewRecorder()
		r.srv.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if !strings.Contains(w.Body.String(), "\n"+want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	get(200, "2")
	get(200, "1")
	get(200, "0")
	get(429, "0")
	metric("svc_rate_windows_shared 1")
	shared.fail = errors.New("away")
	get(200, "6") // three of ten were accepted by this process
	metric("svc_rate_windows_shared 0")
	metric("svc_rate_window_failures_total 7")
	if !strings.HasPrefix(shared.names[0], "api:") {
		t.Errorf("the window is %q", shared.names[0])
	}
}

// Without shared windows the metrics report that each process has its own.
func TestOwnWindowsAreInTheMetrics(t *testing.T) {
	r := newRig(t)
	w := httptest.NewRecorder()
	r.srv.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if !strings.Contains(w.Body.String(), "\nsvc_rate_windows_shared 0\n") {
		t.Error("the metrics do not say that the windows are not shared")
	}
}
