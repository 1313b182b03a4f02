package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"svc/gateway"
)

// telemetry.metrics.listen, over HTTP.
func TestMetricsListen(t *testing.T) {
	u := newUpstream(t, echo)
	c := newOTLPCollector(t)
	r := newRig(t, basic(u.URL)+"telemetry:\n  metrics: {listen: '127.0.0.1:0'}\n"+pipeline("customer", c.URL, ""))
	r.post(call("1", "safe"))
	r.post(call("2", "danger"))
	r.post(call("3", "safe"), "Authorization", "Bearer svc_gw_alice_wrong")
	_ = r.gateway.Reload(context.Background())
	r.edit("default_action: deny", "default_action: maybe")
	if r.gateway.Reload(context.Background()) == nil {
		t.Fatal("a bad configuration was taken")
	}
	url := r.observed()
	got := r.do(http.MethodGet, url+"/metrics", "")
	for _, line := range []string{
		`svc_gateway_requests_total{action="allow",rule="tools",status="200",upstream="main"} 1`,
		`svc_gateway_requests_total{action="deny",rule="no-danger",status="403",upstream=""} 1`,
		`svc_gateway_requests_total{action="deny",rule="",status="401",upstream=""} 1`,
		`svc_gateway_own_duration_seconds_count 3`,
		`svc_gateway_upstream_duration_seconds_count{upstream="main"} 1`,
		`svc_gateway_reloads_total{result="ok"} 1`, `svc_gateway_reloads_total{result="failed"} 1`, `svc_gateway_reload_success 0`,
		`svc_gateway_ready 1`, `svc_gateway_audit_writable 1`, `svc_gateway_upstream_dials_total{upstream="main"} 1`,
		`svc_gateway_build_info{go="` + regexpGo + `",version="test"} 1`, `svc_gateway_spans_dropped_total{pipeline="customer"} 0`,
	} {
		if !regexp.MustCompile(`(?m)^` + strings.ReplaceAll(regexp.QuoteMeta(line), regexp.QuoteMeta(regexpGo), `[^"]+`) + `$`).MatchString(got.body) {
			t.Errorf("no line %s", line)
		}
	}
	if got.status != 200 || t.Failed() {
		t.Logf("%d\n%s", got.status, got.body)
	}
	if other := r.do(http.MethodGet, url+"/debug/pprof/", ""); other.status != 404 {
		t.Errorf("other paths answer %d", other.status)
	}
	if main := r.do(http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+"/metrics", ""); main.status != 404 {
		t.Errorf("/metrics on the gateway's own address answers %d", main.status)
	}
	r.stop()
	if _, err := http.Get(url + "/metrics"); err == nil {
		t.Error("metrics outlive the gateway")
	}
}

const regexpGo = "GO"

// An address that cannot be bound is fatal at the start.
func TestMetricsListenIsTaken(t *testing.T) {
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	r := newRig(t, basic("http://127.0.0.1:1"))
	r.stop()
	r.yaml += "telemetry: {metrics: {listen: '" + strings.TrimPrefix(taken.URL, "http://") + "'}}\n"
	cfg, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Config: cfg, Load: r.load})
	if err == nil {
		g.Close()
		t.Fatal("the gateway started")
	}
	if !strings.Contains(err.Error(), "telemetry.metrics.listen") {
		t.Errorf("error %v", err)
	}
}
