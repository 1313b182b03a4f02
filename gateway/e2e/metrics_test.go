//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc/gateway/redis/redistest"
)

// everythingOn is a gateway with every part that has metrics, except a control plane: tokens, a
// shared store, a guardrail, a pipeline. Its rule applies the guardrail to mail.
func everythingOn(t *testing.T, upstream, guard, otlp string) *oauthRig {
	t.Helper()
	o := newOAuthRig(t, upstream, "", "", "    - {id: ask, action: guardrail, guardrail: dlp, when: {tool_name: mail}}\n"+
		"    - {id: slows, action: rate_limit, tokens_per_second: 0.001, when: {tool_name: slow}}\n"+allowAll+"\n"+
		"guardrails:\n  - {name: dlp, url: '"+guard+"', breaker: {failure_threshold: 2, open_duration: 5m}}\n"+
		"telemetry:\n  metrics: {listen: '127.0.0.1:0'}\n"+pipeline("customer", otlp, ""), nil)
	o.stop()
	o.edit("default_upstream: main", inRedis(redistest.Start(t).URL(), "operation_timeout: 5s")+"default_upstream: main")
	o.start()
	return o
}

// metrics scrapes the gateway once the previous requests are counted: a request is counted after
// its response.
func (r *rig) metrics() string {
	r.t.Helper()
	eventually(r.t, "requests are in flight", func() bool { return r.inFlight.Load() == 0 })
	return r.do(http.MethodGet, r.observed()+"/metrics", "").body
}

// The metrics of guardrails, breakers, the shared store and the token issuer. Every label value
// is a name of the configuration or one of a fixed set.
func TestMetricsOfTheOutsideWorld(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, echo)
	guard := newGuard(t, says(200, `{"action":"pass"}`))
	o := everythingOn(t, up.URL, guard.URL, newOTLPCollector(t).URL)
	bearer := []string{"Authorization", "Bearer " + o.token(nil)}
	o.post(mail, bearer...)
	for range 3 {
		o.post(call("1", "slow"), bearer...)
	}
	expect := func(lines ...string) {
		t.Helper()
		text := o.metrics()
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("no line %s", line)
			}
		}
		if t.Failed() {
			t.Log(text)
		}
	}
	expect(`svc_gateway_guardrail_duration_seconds_count{guardrail="dlp",verdict="pass"} 1`, `svc_gateway_guardrail_breaker_open{guardrail="dlp"} 0`,
		`svc_gateway_requests_total{action="rate_limit_blocked",rule="slows",status="429",upstream=""} 2`,
		"svc_gateway_rate_limit_store_allowed_total 1", "svc_gateway_rate_limit_store_refused_total 2", "svc_gateway_rate_limit_store_failed_total 0",
		"svc_gateway_rate_limit_store_failing 0", "svc_gateway_rate_limit_buckets 0",
		"svc_gateway_oauth_keys 1", "svc_gateway_oauth_failing 0", "svc_gateway_oauth_signature_checks_total 1", "svc_gateway_oauth_key_fetches_total 1")
	guard.answer(says(500, ""))
	for range 4 {
		o.post(mail, bearer...)
	}
	expect(`svc_gateway_guardrail_duration_seconds_count{guardrail="dlp",verdict="error_failclosed"} 4`, `svc_gateway_guardrail_breaker_open{guardrail="dlp"} 1`)
	if err := o.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(`svc_gateway_guardrail_breaker_open{guardrail="dlp"} 0`)
}

// Each callout to a guardrail is counted: for a request, for its answer, and for frames.
func TestGuardrailMetricsCountEveryCallout(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write([]byte("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"result\":{}}\n\n"))
	})
	guard := newGuard(t, says(200, `{"action":"pass"}`))
	r := newRig(t, guardedBy(up.URL, guard.URL, "", "      when: {tool_name: mail}\n    - id: back\n      action: guardrail\n      guardrail: dlp\n      frames: true\n"+ofAnswers)+
		"telemetry: {metrics: {listen: '127.0.0.1:0'}}\n")
	if got := r.post(mail); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if n := len(guard.seen()); n != 3 {
		t.Fatalf("asked %d times", n)
	}
	if text := r.metrics(); !strings.Contains(text, `svc_gateway_guardrail_duration_seconds_count{guardrail="dlp",verdict="pass"} 3`) {
		t.Error(text)
	}
}

// The number of label values is bounded, whatever clients send: a thousand tools, callers,
// methods and OAuth clients create no series.
func TestMetricLabelsAreNotFromTheWire(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, echo)
	o := everythingOn(t, up.URL, "http://127.0.0.1:1", newOTLPCollector(t).URL)
	series := func() int { return strings.Count(o.metrics(), "\nsvc_gateway_") + strings.Count(o.metrics(), "\nmcp_") }
	ask := func(i int) {
		name := "made-up-" + string(rune('a'+i%26)) + strings.Repeat("x", i%7)
		token := o.token(map[string]any{"sub": name, "client_id": name})
		o.post(call("1", name), "Authorization", "Bearer "+token)
		o.post(`{"jsonrpc":"2.0","id":1,"method":"`+name+`"}`, "Authorization", "Bearer "+token, "Mcp-Protocol-Version", name)
	}
	ask(0)
	before := series()
	for i := range 100 {
		ask(i)
	}
	if after := series(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
}

// Every metric that deploy/ queries exists.
func TestDeployedMetricsExist(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, echo)
	guard := newGuard(t, says(200, `{"action":"pass"}`))
	o := everythingOn(t, up.URL, guard.URL, newOTLPCollector(t).URL)
	o.post(mail, "Authorization", "Bearer "+o.token(nil))
	federation := newRig(t, federated(fmt.Sprintf(`
  - {name: a, url: %s, prefix: a_, pin_tools: warn, max_in_flight: 9}
  - {name: b, command: [cat], prefix: b_}`, up.URL), allowEverything+"\ntelemetry: {metrics: {listen: '127.0.0.1:0'}}\ndata_flow: {labels: [{name: untrusted, tool_prefix: a_}]}"))
	// Metrics that appear only with a control plane or the tool search.
	known := map[string]bool{"svc_gateway_tool_search_backing_off": true, "svc_gateway_tool_definition_changed_total": true,
		"svc_gateway_governance_known": true, "svc_gateway_governance_failing": true, "svc_gateway_governance_rejected_total": true,
		"svc_gateway_traces_failing": true, "svc_gateway_traces_dropped_total": true,
		"svc_gateway_traces_quarantined_total": true, "svc_gateway_traces_posted_total": true}
	for _, name := range regexp.MustCompile(`(?m)^[a-z_]+`).FindAllString(o.metrics()+"\n"+federation.metrics(), -1) {
		known[name] = true
	}
	for _, file := range []string{"grafana/gateway.json", "prometheus/gateway.rules.yaml"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b(svc|go|process)_[a-z_]+\b`).FindAllString(string(data), -1)
		if len(names) < 10 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s asks for %s, which is not exposed", file, name)
			}
		}
		if !strings.HasSuffix(file, ".json") {
			continue
		}
		var dashboard struct{ Panels []struct{ ID int } }
		if err := json.Unmarshal(data, &dashboard); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		seen := map[int]bool{} // Grafana shows one panel of each id
		for _, p := range dashboard.Panels {
			if seen[p.ID] {
				t.Errorf("%s has two panels with the id %d", file, p.ID)
			}
			seen[p.ID] = true
		}
	}
}

// The duration of a stream that a client opened to listen is in the histograms of operations only up
// to its opening, and is no error when the client closes it.
func TestMetricsOfStreamsThatListen(t *testing.T) {
	c := newOTLPCollector(t)
	heard := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, _ string, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, ": open\n\n")
		_ = http.NewResponseController(w).Flush()
		<-heard
		<-time.After(300 * time.Millisecond)
		fmt.Fprintf(w, "data: %s\n\n", progress)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	r := newRig(t, rules(basic(up.URL), listenRule)+"telemetry:\n  metrics: {listen: '127.0.0.1:0'}\n"+pipeline("customer", c.URL, ""))
	began := time.Now()
	resp := r.open(http.MethodPost, modern("1", "subscriptions/listen", `"notifications":{}`), modernHeaders("subscriptions/listen")...)
	took := time.Since(began).Seconds()
	close(heard)
	if _, err := bufio.NewReader(resp.Body).ReadString('}'); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	text := r.metrics()
	r.stop()
	for _, side := range []string{"server", "client"} {
		m := regexp.MustCompile(`mcp_` + side + `_operation_duration_seconds_sum\{error_type="([^"]*)",mcp_method_name="subscriptions/listen",.*\} (\S+)\n`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no duration of the %s in %s", side, text)
		}
		if s, err := strconv.ParseFloat(m[2], 64); err != nil || s > took || m[1] != "" {
			t.Errorf("%s: %s s and error %q, want at most %v s", side, m[2], m[1], took)
		}
	}
	roots := c.roots()
	if len(roots) != 1 {
		t.Fatal(roots)
	}
	listening := c.children(roots[0])["listening"]
	if got := spanAttributes(roots[0])["error.type"]; got != "" || listening == nil || listening.EndTimeUnixNano-listening.StartTimeUnixNano < uint64(300*time.Millisecond) {
		t.Errorf("error %q; %v", got, listening)
	}
}
