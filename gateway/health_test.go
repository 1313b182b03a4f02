package gateway

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc/gateway/auth"
)

var now = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// is a license in one state.
type is auth.Status

func (s is) Status(time.Time) auth.Status { return auth.Status(s) }

// ending is a license with 5 days of grace that expires in the given number of days.
func ending(days int) is {
	l := &auth.License{ExpiresAt: now.AddDate(0, 0, days), GraceDays: 5}
	return is{State: l.State(now), License: l}
}

func probes(l license, log *bytes.Buffer) *healthProbes {
	return newProbes(probeOptions{
		License: l, Dropped: func() uint64 { return 0 }, Now: func() time.Time { return now },
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
}

func ask(h http.HandlerFunc, method, url string) (status int, body string) {
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest(method, url, nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestReadiness(t *testing.T) {
	invalid := is{State: auth.Expired, Err: errors.New("no signature")}
	for _, c := range []struct {
		name   string
		l      is
		drain  bool
		status int
		reason string // with ?verbose, on the metrics listener
	}{
		{"valid", ending(10), false, 200, `{"status":"ok"}`},
		{"in grace", ending(-1), false, 200, `{"status":"ok"}`},
		{"expired", ending(-6), false, 503, "license: expired at 2026-02-23T00:00:00Z, grace ended at 2026-02-28T00:00:00Z"},
		{"invalid", invalid, false, 503, "license: no signature"},
		{"draining", ending(10), true, 503, "draining: the gateway is shutting down"},
	} {
		p := probes(c.l, new(bytes.Buffer))
		if c.drain {
			p.Drain()
		}
		status, body := ask(p.ServeReady, "GET", "/readyz?verbose")
		if status != c.status || status == 503 && body != "" {
			t.Errorf("%s: /readyz: %d %q, want %d, and no body with a 503", c.name, status, body, c.status)
		}
		if status, body := ask(p.ServeReason, "GET", "/readyz?verbose"); status != c.status || body != c.reason {
			t.Errorf("%s: the metrics listener: %d %q, want %d %q", c.name, status, body, c.status, c.reason)
		}
		if status, body := ask(p.ServeReason, "GET", "/readyz"); status == 503 && body != "" {
			t.Errorf("%s: the reason is in a response without ?verbose: %q", c.name, body)
		}
		if status, body := ask(p.ServeLive, "GET", "/healthz"); status != 200 || body != "ok" {
			t.Errorf("%s: /healthz: %d %q", c.name, status, body)
		}
	}
}

func TestReadinessListsWhatNeedsAttention(t *testing.T) {
	p := newProbes(probeOptions{License: ending(1), Dropped: func() uint64 { return 3 }, Now: func() time.Time { return now }})
	p.SetRestartPending([]string{"listen"})
	if _, body := ask(p.ServeReady, "GET", "/readyz"); body != `{"status":"ok","restart_pending":["listen"],"audit_sink_dropped_records":3}` {
		t.Error(body)
	}
	if p.RestartPending() != 1 {
		t.Error(p.RestartPending())
	}
	if status, _ := ask(p.ServeReady, "POST", "/readyz"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
}

func TestStatesOfTheLicenseAreLogged(t *testing.T) {
	for _, c := range []struct {
		name  string
		l     is
		start string // logged at the start
		later string // logged after a change
		days  float64
	}{
		{"valid", ending(40), "", "level=INFO msg=\"license is valid\"", 45},
		{"in grace", ending(-1), "level=WARN", "days_left=4", 4},
		{"expired", ending(-6), "level=ERROR", "its grace period has ended", -1},
		{"invalid", is{State: auth.Expired, Err: errors.New("no signature")}, "level=ERROR", "error=\"no signature\"", 0},
	} {
		var log bytes.Buffer
		p := probes(c.l, &log)
		p.LogStart()
		if got := log.String(); !strings.Contains(got, c.start) || c.start == "" && got != "" {
			t.Errorf("%s: at the start: %q, want %q", c.name, got, c.start)
		}
		log.Reset()
		p.LogLicense(auth.Status(c.l))
		if got := log.String(); !strings.Contains(got, c.later) {
			t.Errorf("%s: after a change: %q, want %q", c.name, got, c.later)
		}
		if got := p.LicenseDays(); got != c.days {
			t.Errorf("%s: %v days, want %v", c.name, got, c.days)
		}
	}
}

// A license is reported at the start from 30 days before the end of its grace period on, and once a
// day after that: the licenses of a whole fleet end at one moment.
func TestALicenseThatEndsSoonIsLogged(t *testing.T) {
	for days, warned := range map[int]bool{26: false, 25: true, 1: true} { // and 5 days of grace
		var log bytes.Buffer
		probes(ending(days), &log).LogStart()
		if got := strings.Contains(log.String(), `level=WARN msg="license ends soon`); got != warned {
			t.Errorf("%d days before it expires: %s", days, &log)
		}
	}
	var log bytes.Buffer
	probes(ending(20), &log).LogStart()
	if !strings.Contains(log.String(), "state=valid") || !strings.Contains(log.String(), "days_left=25") {
		t.Errorf("%s", &log)
	}
}
