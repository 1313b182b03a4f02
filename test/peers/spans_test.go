package peers

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// observedBy is the configuration of a gateway with a rule of each action, tokens,
// a guardrail, and two pipelines.
func observedBy(upstream, guard, customer, operator, oauth string) string {
	return fmt.Sprintf(`
default_upstream: main
upstreams: [{name: main, url: %q}]
routes: [{match: {tool_name: "*"}, upstream: main}]
auth:
  enabled: true
%s
guardrails:
  - {name: dlp, url: %q, timeout: 2s}
  - {name: away, url: "http://127.0.0.1:1", fail_open: true}
policy:
  default_action: allow
  rules:
    - {id: no-danger, action: deny, when: {tool_name: danger}}
    - {id: masks, action: redact, when: {tool_name: masked}, redact: [{regex: secret, replacement: xxx}]}
    - {id: slows, action: rate_limit, tokens_per_second: 0.0001, when: {tool_name: limited}}
    - {id: strips, action: strip_app, when: {tool_name: stripped}}
    - {id: asks, action: guardrail, guardrail: dlp, when: {tool_prefix: ask}}
    - {id: asks-away, action: guardrail, guardrail: away, when: {tool_name: away}}
telemetry:
  customer: {enabled: true, endpoint: %q, service_name: gw, resource_attrs: {deployment.environment.name: test}}
  operator: {enabled: true, endpoint: %q, service_name: ops, sample_ratio: 0.25, compression: gzip}
`, upstream, oauth, guard, customer, operator)
}

func oauthSection(issuer string) string {
	return fmt.Sprintf("  oauth: {enabled: true, issuer: %q, audience: gw, jwks_url: %q, cimd: {enabled: true, allowed_networks: [127.0.0.0/8]}}", issuer, issuer)
}

func call(id int, tool, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":"a secret"}%s}}`, id, tool, more)
}

// parentOf is a traceparent for request n, sampled or not.
func parentOf(n int, sampled bool) (text string, id pcommon.TraceID) {
	id = pcommon.TraceID{0xaa, 15: byte(n)}
	flags := "00"
	if sampled {
		flags = "01"
	}
	return fmt.Sprintf("00-%s-00f067aa0ba902b7-%s", hex.EncodeToString(id[:]), flags), id
}

// The OpenTelemetry Collector gets every attribute of the gateway specification,
// Spans, in both pipelines, from the process.
func TestCollectorSeesEveryAttribute(t *testing.T) {
	guard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), `"ask-no"`):
			io.WriteString(w, `{"action":"reject"}`)
		case strings.Contains(string(body), `"ask-mask"`):
			fmt.Fprintf(w, `{"action":"mask","body":%s}`, strings.ReplaceAll(string(body), "secret", "xxx"))
		default:
			io.WriteString(w, `{"action":"pass"}`)
		}
	}))
	defer guard.Close()
	up, iss := newUpstream(t), newIssuer(t)
	customer, operator := newCollector(t), newCollector(t)
	client, ca := newClientHost(t, "Planner")
	g := startGateway(t, observedBy(up.URL, guard.URL, customer.url, operator.url, oauthSection(iss.URL)), "SSL_CERT_FILE="+ca)
	bearer := "Bearer " + iss.token(t, map[string]any{"aud": "gw", "sub": "alice", "client_id": client})

	type want map[string]string
	tests := []struct {
		name, body string
		status     int
		want       want
		stages     string
		failed     bool
	}{
		{"allow", call(0, "safe", `,"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"claude-code","version":"2.1.0"}}`), 200, want{"mcp.upstream": "main", "mcp.client.name": "claude-code", "mcp.client.version": "2.1.0"}, "policy_eval provider", false},
		{"deny", call(1, "danger", ""), 403, want{"mcp.policy.decision": "deny", "mcp.policy.rule_id": "no-danger", "error.type": "policy_denied", "svc.reason": "policy_denied"}, "policy_eval", true},
		{"redact", call(2, "masked", ""), 200, want{"mcp.policy.decision": "redact", "mcp.policy.rule_id": "masks", "mcp.upstream": "main"}, "policy_eval provider", false},
		{"rate limit, allowed", call(3, "limited", ""), 200, want{"mcp.policy.rule_id": "slows", "mcp.upstream": "main"}, "policy_eval provider", false},
		{"rate limit", call(4, "limited", ""), 429, want{"mcp.policy.decision": "rate_limit_blocked", "mcp.policy.rule_id": "slows", "error.type": "rate_limited", "svc.reason": "rate_limited"}, "policy_eval", true},
		{"strip_app", call(5, "stripped", ""), 200, want{"mcp.policy.decision": "strip_app", "mcp.policy.rule_id": "strips", "mcp.upstream": "main"}, "policy_eval provider", false},
		{"guardrail pass", call(6, "ask-yes", ""), 200, want{"mcp.policy.decision": "guardrail", "mcp.policy.rule_id": "asks", "mcp.guardrail.name": "dlp", "mcp.guardrail.verdict": "pass", "mcp.upstream": "main"}, "policy_eval guardrail provider", false},
		{"guardrail mask", call(7, "ask-mask", ""), 200, want{"mcp.policy.decision": "guardrail", "mcp.policy.rule_id": "asks", "mcp.guardrail.name": "dlp", "mcp.guardrail.verdict": "mask", "mcp.upstream": "main"}, "policy_eval guardrail provider", false},
		{"guardrail reject", call(8, "ask-no", ""), 403, want{"mcp.policy.decision": "guardrail", "mcp.policy.rule_id": "asks", "mcp.guardrail.name": "dlp", "mcp.guardrail.verdict": "reject", "error.type": "policy_denied", "svc.reason": "policy_denied"}, "policy_eval guardrail", true},
		{"guardrail away, fail open", call(9, "away", ""), 200, want{"mcp.policy.decision": "guardrail", "mcp.policy.rule_id": "asks-away", "mcp.guardrail.name": "away", "mcp.guardrail.verdict": "error_failopen", "mcp.upstream": "main"}, "policy_eval guardrail provider", false},
		{"task", `{"jsonrpc":"2.0","id":10,"method":"tasks/get","params":{"taskId":"task-7"}}`, 200, want{"mcp.task.handle": "task-7", "mcp.upstream": "main"}, "policy_eval provider", false},
		{"task made", call(11, "start", ""), 200, want{"mcp.task.handle": "task-7", "mcp.upstream": "main"}, "policy_eval provider", false},
	}
	answers := make([]string, len(tests))
	for i, tt := range tests {
		parent, _ := parentOf(i, true)
		status, body := g.post(tt.body, "Authorization", bearer, "traceparent", parent)
		if status != tt.status {
			t.Fatalf("%s: %d %s\n%s", tt.name, status, body, g.log)
		}
		answers[i] = body
	}
	g.stop()
	for pipeline, c := range map[string]*collector{"customer": customer, "operator": operator} {
		requests := c.requests()
		if len(requests) != len(tests) {
			t.Errorf("%s got %d requests, want %d", pipeline, len(requests), len(tests))
		}
		for i, tt := range tests {
			t.Run(pipeline+"/"+tt.name, func(t *testing.T) {
				_, id := parentOf(i, true)
				s, ok := requests[id]
				if !ok {
					t.Fatal("no span")
				}
				tt.want["mcp.principal"], tt.want["mcp.auth.oauth_client_name"] = "alice", "Planner"
				tt.want["http.response.status_code"] = fmt.Sprint(tt.status)
				for _, key := range []string{"mcp.policy.decision", "mcp.policy.rule_id", "mcp.upstream", "mcp.principal", "mcp.auth.oauth_client_name",
					"mcp.task.handle", "mcp.guardrail.name", "mcp.guardrail.verdict", "http.response.status_code", "error.type", "svc.reason", "mcp.client.name", "mcp.client.version"} {
					if got := s.text(key); got != tt.want[key] {
						t.Errorf("%s is %q, want %q", key, got, tt.want[key])
					}
				}
				// The request is found by the id that its client got.
				if id := s.text("svc.request_id"); id == "" || tt.failed && !strings.Contains(answers[i], `"`+id+`"`) {
					t.Errorf("svc.request_id is %q, the answer %s", id, answers[i])
				}
				latency, ok := s.Attributes().Get("mcp.guardrail.latency_ms")
				if ok != (tt.want["mcp.guardrail.name"] != "") || ok && (latency.Type() != pcommon.ValueTypeDouble || latency.Double() < 0) {
					t.Errorf("mcp.guardrail.latency_ms is %v", latency)
				}
				if failed := s.Status().Code() == ptrace.StatusCodeError; failed != tt.failed {
					t.Errorf("status %s", s.Status().Code())
				}
				if got := hex.EncodeToString(spanID(s.ParentSpanID())); got != "00f067aa0ba902b7" {
					t.Errorf("parent %s", got)
				}
				var stages []string
				for _, name := range []string{"policy_eval", "guardrail", "provider"} {
					child, ok := c.below(s)[name]
					if !ok {
						continue
					}
					stages = append(stages, name)
					if child.StartTimestamp() < s.StartTimestamp() || child.EndTimestamp() > s.EndTimestamp() {
						t.Errorf("%s stands beyond its request", name)
					}
				}
				if got := strings.Join(stages, " "); got != tt.stages {
					t.Errorf("stages %q, want %q", got, tt.stages)
				}
				service, environment := "gw", any("test")
				if pipeline == "operator" {
					service, environment = "ops", nil
				}
				if s.resource["service.name"] != service || s.resource["deployment.environment.name"] != environment {
					t.Errorf("resource %v", s.resource)
				}
			})
		}
	}
}

func spanID(id pcommon.SpanID) []byte { return id[:] }

// The trace context is forwarded to the upstream: always in the header, and in
// _meta if the caller sent one there. The context of an unsampled caller is not
// recorded, and forwarded unchanged.
func TestTraceContextReachesTheUpstream(t *testing.T) {
	up := newUpstream(t)
	customer, operator := newCollector(t), newCollector(t)
	g := startGateway(t, strings.Replace(observedBy(up.URL, "http://127.0.0.1:1", customer.url, operator.url, ""), "enabled: true", "enabled: false", 1))
	sampled, sampledID := parentOf(1, true)
	silent, silentID := parentOf(2, false)
	inMeta, metaID := parentOf(3, true)
	meta := `,"_meta":{"traceparent":"` + inMeta + `","tracestate":"a=b"}`
	g.post(call(1, "safe", ""), "traceparent", sampled, "tracestate", "c=d")
	g.post(call(2, "safe", ""), "traceparent", silent)
	g.post(call(3, "safe", meta))
	g.post(call(4, "safe", ""))
	g.stop()

	requests := customer.requests()
	for id, of := range map[string]pcommon.TraceID{"1": sampledID, "3": metaID} {
		s, ok := requests[of]
		if !ok {
			t.Fatalf("request %s was not recorded", id)
		}
		asked := customer.below(s)["provider"]
		want := fmt.Sprintf("00-%s-%s-01", s.TraceID(), asked.SpanID())
		if got := up.of(id).header.Get("Traceparent"); got != want || asked.Kind() != ptrace.SpanKindClient {
			t.Errorf("request %s: the upstream was told %s, want %s", id, got, want)
		}
		if id == "3" && !strings.Contains(up.of(id).body, `"traceparent":"`+want+`","tracestate":"a=b"`) {
			t.Errorf("_meta became %s", up.of(id).body)
		}
		if _, ok := operator.requests()[of]; !ok {
			t.Errorf("request %s is missing in the second pipeline", id)
		}
	}
	if _, ok := requests[silentID]; ok || up.of("2").header.Get("Traceparent") != silent {
		t.Errorf("who does not record: recorded %v, the upstream was told %s", ok, up.of("2").header.Get("Traceparent"))
	}
	if got := up.of("1").header.Get("Tracestate"); got != "c=d" {
		t.Errorf("tracestate %q", got)
	}
	if got := up.of("4").header.Get("Traceparent"); len(got) != 55 {
		t.Errorf("a new trace is told as %q", got)
	}
	if len(requests) != 3 {
		t.Errorf("%d requests were recorded, want 3", len(requests))
	}
}

// The sample of each pipeline is selected by trace id, like the OpenTelemetry SDK
// does.
func TestSamplingAgreesWithTheSDK(t *testing.T) {
	const n = 400
	up := newUpstream(t)
	customer, operator := newCollector(t), newCollector(t)
	g := startGateway(t, strings.Replace(observedBy(up.URL, "http://127.0.0.1:1", customer.url, operator.url, ""), "enabled: true", "enabled: false", 1))
	for i := range n {
		g.post(call(i, "safe", ""))
	}
	g.stop()
	all, some := customer.requests(), operator.requests()
	if len(all) != n {
		t.Fatalf("the pipeline without a ratio got %d of %d", len(all), n)
	}
	sampler := sdktrace.TraceIDRatioBased(0.25)
	for id := range all {
		want := sampler.ShouldSample(sdktrace.SamplingParameters{TraceID: trace.TraceID(id)}).Decision == sdktrace.RecordAndSample
		if _, got := some[id]; got != want {
			t.Errorf("trace %s: exported %v, the SDK says %v", id, got, want)
		}
	}
	if len(some) < n/8 || len(some) > n/2 {
		t.Errorf("a quarter of %d is %d", n, len(some))
	}
}
