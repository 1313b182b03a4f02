package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"svc/gateway/config"
	"svc/gateway/telemetry"
)

func options() observerOptions {
	return observerOptions{
		Version: "1.2.3", Logger: slog.New(slog.DiscardHandler),
		Ready: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		State: func() telemetry.State { return telemetry.State{LicenseDays: 12} },
	}
}

// Metrics are served on a listener of their own, until Run returns.
func TestMetricsAreServedUntilTheEnd(t *testing.T) {
	o, err := newObserver(&config.Telemetry{Metrics: config.Metrics{Listen: "127.0.0.1:0"}}, options())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- o.Run(ctx) }()
	o.Reloaded(errors.New("no file"))
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + o.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	_, metrics := get("/metrics")
	for _, line := range []string{"svc_gateway_license_days_left 12\n", `svc_gateway_reloads_total{result="failed"} 1`, `version="1.2.3"`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no %s in\n%s", line, metrics)
		}
	}
	if status, _ := get("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d", status)
	}
	if status, _ := get("/mcp"); status != http.StatusNotFound {
		t.Errorf("another path: %d", status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := o.Close(); err != nil {
		t.Errorf("closing after the end: %v", err)
	}
	if c, err := net.Dial("tcp", o.Addr().String()); err == nil {
		c.Close()
		t.Error("metrics are served after the end")
	}
}

func TestTheAddressOfMetricsIsBoundAtTheStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := config.Telemetry{Metrics: config.Metrics{Listen: taken.Addr().String()}}
	if _, err := newObserver(&cfg, options()); err == nil || !strings.Contains(err.Error(), "telemetry.metrics.listen") {
		t.Errorf("error %v", err)
	}
	taken.Close()
	o, err := newObserver(&cfg, options())
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil { // close an observer that never ran
		t.Fatal(err)
	}
	again, err := net.Listen("tcp", cfg.Metrics.Listen)
	if err != nil {
		t.Fatalf("the address was not released: %v", err)
	}
	again.Close()
}

func TestWithoutConfigurationNothingIsObserved(t *testing.T) {
	o, err := newObserver(&config.Telemetry{}, options())
	if err != nil || o.Tracer != nil || o.Metrics != nil || o.Addr() != nil {
		t.Fatalf("%+v, %v", o, err)
	}
	o.Adopt(&config.Telemetry{})
	o.Reloaded(nil)
	if err := errors.Join(o.Run(t.Context()), o.Close()); err != nil {
		t.Error(err)
	}
}
