package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway"
	"svc/gateway/auth"
)

// licensed starts a gateway, with metrics, the given number of days after its license was issued
// for 30 days and 5 days of grace. later moves its clock.
func licensed(t *testing.T, days int) (r *rig, later func(days int)) {
	t.Helper()
	var ahead atomic.Int64
	later = func(days int) { ahead.Store(int64(time.Duration(days) * 24 * time.Hour)) }
	later(days)
	r = newRigWith(t, basic(newUpstream(t, echo).URL)+"telemetry: {metrics: {listen: 127.0.0.1:0}}\n", func(o *gateway.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	return r, later
}

// ready requests /readyz?verbose from both listeners.
func (r *rig) ready() (main, metrics answer) {
	r.t.Helper()
	main = r.do(http.MethodGet, strings.TrimSuffix(r.url, gateway.Path)+"/readyz?verbose", "")
	metrics = r.do(http.MethodGet, r.observed()+"/readyz?verbose", "")
	return main, metrics
}

// A start in the grace period logs a warning, and the remaining time is a metric.
func TestStartInTheGracePeriodWarns(t *testing.T) {
	r, _ := licensed(t, 31)
	if log := r.logs.String(); !strings.Contains(log, "level=WARN msg=\"license has expired and is in its grace period") || !strings.Contains(log, "days_left=4") {
		t.Errorf("logged:\n%s", log)
	}
	if main, metrics := r.ready(); main.status != 200 || metrics.status != 200 || metrics.body != main.body {
		t.Errorf("/readyz: %d and %d %s", main.status, metrics.status, metrics.body)
	}
	if got := r.metrics(); !strings.Contains(got, "\nsvc_gateway_license_days_left 4\n") {
		t.Error("the metric of the days left is missing")
	}
	valid, _ := licensed(t, 0)
	if log := valid.logs.String(); strings.Contains(log, "license") {
		t.Errorf("a valid license is logged:\n%s", log)
	}
}

// Each change of the state is one log line with its cause. The metrics listener gives the reason
// why /readyz is 503, and the gateway's own address does not.
func TestLicenseTransitionsAreLogged(t *testing.T) {
	r, later := licensed(t, 0)
	reload := func(days int) string {
		t.Helper()
		before := len(r.logs.String())
		later(days)
		for range 2 { // the second check changes nothing
			if err := r.gateway.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var lines []string
		for line := range strings.Lines(r.logs.String()[before:]) {
			if strings.Contains(line, "license") {
				lines = append(lines, line)
			}
		}
		if len(lines) != 1 {
			t.Errorf("day %d: %d lines: %s", days, len(lines), lines)
			return ""
		}
		return lines[0]
	}
	if line := reload(31); !strings.Contains(line, "WARN") || !strings.Contains(line, "grace period") {
		t.Errorf("grace: %s", line)
	}
	if line := reload(36); !strings.Contains(line, "ERROR") || !strings.Contains(line, "grace period has ended") {
		t.Errorf("expired: %s", line)
	}
	main, metrics := r.ready()
	if main.status != 503 || main.body != "" {
		t.Errorf("/readyz?verbose at the gateway's own address: %d %q", main.status, main.body)
	}
	if metrics.status != 503 || !strings.Contains(metrics.body, "license: expired at") {
		t.Errorf("/readyz?verbose at the metrics: %d %q", metrics.status, metrics.body)
	}
	file := filepath.Join(r.dir, "license.jwt")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if line := reload(0); !strings.Contains(line, "ERROR") || !strings.Contains(line, "does not verify") {
		t.Errorf("junk: %s", line)
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if line := reload(0); !strings.Contains(line, "INFO") || !strings.Contains(line, "license is valid") {
		t.Errorf("recovered: %s", line)
	}
	r.gateway.Drain()
	if _, metrics := r.ready(); metrics.status != 503 || !strings.Contains(metrics.body, "draining") {
		t.Errorf("draining: %d %q", metrics.status, metrics.body)
	}
}

// The license states and the responses of /readyz; /mcp is served throughout.
func TestLicenseStates(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, basic(up.URL))
	base := strings.TrimSuffix(r.url, "/mcp")
	path := filepath.Join(r.dir, "license.jwt")
	issue := func(ago time.Duration, days, grace int) {
		t.Helper()
		if _, err := auth.Issue(auth.Request{KeyFile: filepath.Join(r.dir, "license.key"), Subject: "t", Days: days, GraceDays: grace, Out: path, Now: time.Now().Add(-ago)}); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * time.Hour
	steps := []struct {
		name string
		do   func()
		want int
	}{
		{"valid", func() { issue(0, 30, 5) }, 200},
		{"in grace", func() { issue(32*day, 30, 5) }, 200},
		{"expired beyond grace", func() { issue(36*day, 30, 5) }, 503},
		{"replacing the file recovers", func() { issue(0, 30, 5) }, 200},
		{"bad signature", func() { write(t, path, []byte("e30.e30.e30")) }, 503},
		{"readable by others", func() {
			issue(0, 30, 5)
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}, 503},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			s.do()
			if err := r.gateway.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := r.do(http.MethodGet, base+"/readyz", "")
			if got.status != s.want || s.want == 503 && got.body != "" {
				t.Errorf("readyz: %d %q, want %d", got.status, got.body, s.want)
			}
			if got := r.post(call("1", "safe")); got.status != 200 {
				t.Errorf("/mcp: %d", got.status)
			}
		})
	}
}
