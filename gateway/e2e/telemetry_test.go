package e2e

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlpCollector is an OTLP endpoint that decodes with the generated types.
type otlpCollector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
}

func newOTLPCollector(t testing.TB) *otlpCollector {
	c := &otlpCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Error(err)
				return
			}
			body = z
		}
		data, err := io.ReadAll(body)
		var req collectorpb.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &req) != nil {
			t.Errorf("%s: not an export: %v", r.URL.Path, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// roots returns the spans of requests, in the order of their start; children returns the spans
// below one span.
func (c *otlpCollector) roots() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var roots []*tracepb.Span
	for _, s := range c.spans {
		if s.Kind == tracepb.Span_SPAN_KIND_SERVER {
			roots = append(roots, s)
		}
	}
	for i := range roots {
		for j := i; j > 0 && roots[j].StartTimeUnixNano < roots[j-1].StartTimeUnixNano; j-- {
			roots[j], roots[j-1] = roots[j-1], roots[j]
		}
	}
	return roots
}

// The attributes of the OpenTelemetry conventions for MCP are beside those of the specification,
// and the durations of operations are in the metrics under the names of the conventions.
func TestOpenTelemetryConventionsOfMCP(t *testing.T) {
	c := newOTLPCollector(t)
	u := newUpstream(t, echo)
	r := newRig(t, strings.Replace(basic(u.URL), "default_action: deny", "default_action: allow", 1)+"telemetry:\n  metrics: {listen: '127.0.0.1:0'}\n"+pipeline("customer", c.URL, ""))
	r.post(call(`"order-5"`, "safe"))
	r.post(`{"jsonrpc":"2.0","id":6,"method":"prompts/get","params":{"name":"review"}}`)
	r.post(`{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"https://bob:pw@files.example/a?token=t#f"}}`)
	r.post(`{"jsonrpc":"2.0","id":8,"method":"made/up"}`)
	text := r.metrics()
	r.stop()
	host, port, _ := strings.Cut(strings.TrimPrefix(u.URL, "http://"), ":")
	for name, want := range map[string]map[string]string{
		"tools/call safe":    {"jsonrpc.request.id": "order-5"},
		"prompts/get review": {"jsonrpc.request.id": "6", "gen_ai.prompt.name": "review"},
		"resources/read":     {"jsonrpc.request.id": "7", "mcp.resource.uri": "https://files.example/a"},
	} {
		want["client.address"], want["network.transport"], want["network.protocol.version"] = "127.0.0.1", "tcp", "1.1"
		i := slices.IndexFunc(c.roots(), func(s *tracepb.Span) bool { return s.Name == name })
		if i < 0 {
			t.Errorf("no span %s", name)
			continue
		}
		root := c.roots()[i]
		got := spanAttributes(root)
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %s = %q, want %q", name, k, got[k], v)
			}
		}
		up := c.children(root)["provider"]
		if up == nil {
			t.Errorf("%s: no span of the upstream", name)
		} else if got := spanAttributes(up); got["server.address"] != host || got["server.port"] != port || got["network.transport"] != "tcp" {
			t.Errorf("%s: the upstream's span has %v", name, got)
		}
	}
	for _, line := range []string{
		`mcp_server_operation_duration_seconds_count{error_type="",mcp_method_name="prompts/get",mcp_protocol_version="",network_transport="tcp"} 1`,
		`mcp_server_operation_duration_seconds_count{error_type="",mcp_method_name="_OTHER",mcp_protocol_version="",network_transport="tcp"} 1`,
		`mcp_client_operation_duration_seconds_count{error_type="",mcp_method_name="tools/call",mcp_protocol_version="",network_transport="tcp",server_address="` + host + `",server_port="` + port + `"} 1`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func (c *otlpCollector) children(of *tracepb.Span) map[string]*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]*tracepb.Span{}
	for _, s := range c.spans {
		if string(s.ParentSpanId) == string(of.SpanId) {
			found[s.Name] = s
		}
	}
	return found
}

func spanAttributes(s *tracepb.Span) map[string]string {
	m := map[string]string{}
	for _, kv := range s.Attributes {
		if text := kv.Value.GetStringValue(); text != "" {
			m[kv.Key] = text
		} else {
			m[kv.Key] = fmt.Sprint(kv.Value.GetIntValue())
		}
	}
	return m
}

func pipeline(name, url, more string) string {
	return fmt.Sprintf("  %s: {enabled: true, endpoint: '%s'%s}\n", name, url, more)
}

const (
	someTrace  = "0af7651916cd43dd8448eb211c80319c"
	someParent = "00-" + someTrace + "-b7ad6b7169203331-01"
)

// observed is a policy with a rule for each decision.
func observed(url string) string {
	return strings.Replace(basic(url), "  rules:\n", `  rules:
    - id: masks
      action: redact
      when: {tool_name: masked}
      redact: [{regex: secret, replacement: xxx}]
    - id: slows
      action: rate_limit
      when: {tool_name: limited}
      tokens_per_second: 0.001
    - id: strips
      action: strip_app
      when: {tool_name: stripped}
`, 1)
}

// The attributes of spans: mcp.policy.decision, mcp.policy.rule_id, mcp.upstream, mcp.principal,
// and those that the semantic conventions require.
func TestSpansOfRequests(t *testing.T) {
	c := newOTLPCollector(t)
	u := newUpstream(t, echo)
	r := newRig(t, observed(u.URL)+"telemetry:\n"+pipeline("customer", c.URL, ", compression: gzip"))
	tests := []struct {
		body, name string
		headers    []string
		want       map[string]string // exactly these of the attributes below
		stages     string
		failed     bool
	}{
		{call("1", "safe"), "tools/call safe", nil, map[string]string{"mcp.policy.rule_id": "tools", "mcp.upstream": "main", "mcp.principal": "alice", "http.response.status_code": "200", "mcp.method.name": "tools/call", "gen_ai.tool.name": "safe"}, "policy_eval provider", false},
		{call("2", "danger"), "tools/call danger", nil, map[string]string{"mcp.policy.decision": "deny", "mcp.policy.rule_id": "no-danger", "mcp.principal": "alice", "http.response.status_code": "403", "mcp.method.name": "tools/call", "gen_ai.tool.name": "danger", "error.type": "policy_denied"}, "policy_eval", true},
		{call("3", "unknown"), "tools/call unknown", nil, map[string]string{"mcp.policy.decision": "deny", "mcp.policy.rule_id": "default_deny", "mcp.principal": "alice", "http.response.status_code": "403", "mcp.method.name": "tools/call", "gen_ai.tool.name": "unknown", "error.type": "policy_denied"}, "policy_eval", true},
		{call("4", "masked"), "tools/call masked", nil, map[string]string{"mcp.policy.decision": "redact", "mcp.policy.rule_id": "masks", "mcp.upstream": "main", "mcp.principal": "alice", "http.response.status_code": "200", "mcp.method.name": "tools/call", "gen_ai.tool.name": "masked"}, "policy_eval provider", false},
		{call("5", "stripped"), "tools/call stripped", nil, map[string]string{"mcp.policy.decision": "strip_app", "mcp.policy.rule_id": "strips", "mcp.upstream": "main", "mcp.principal": "alice", "http.response.status_code": "200", "mcp.method.name": "tools/call", "gen_ai.tool.name": "stripped"}, "policy_eval provider", false},
		{call("6", "limited"), "tools/call limited", nil, map[string]string{"mcp.policy.rule_id": "slows", "mcp.upstream": "main", "mcp.principal": "alice", "http.response.status_code": "200", "mcp.method.name": "tools/call", "gen_ai.tool.name": "limited"}, "policy_eval provider", false},
		{call("7", "limited"), "tools/call limited", nil, map[string]string{"mcp.policy.decision": "rate_limit_blocked", "mcp.policy.rule_id": "slows", "mcp.principal": "alice", "http.response.status_code": "429", "mcp.method.name": "tools/call", "gen_ai.tool.name": "limited", "error.type": "rate_limited"}, "policy_eval", true},
		{`{"jsonrpc":"2.0","id":8,"method":"tools/list"}`, "tools/list", nil, map[string]string{"mcp.upstream": "main", "mcp.principal": "alice", "http.response.status_code": "200", "mcp.method.name": "tools/list"}, "policy_eval provider", false},
		{call("9", "safe"), "POST /mcp", []string{"Authorization", "Bearer no"}, map[string]string{"mcp.principal": "127.0.0.1", "http.response.status_code": "401", "error.type": "unauthorized"}, "", true},
		{`{"jsonrpc":"2.0","id":10,"method":"tasks/get","params":{"taskId":"t-1"}}`, "tasks/get", nil, map[string]string{"mcp.policy.decision": "deny", "mcp.policy.rule_id": "default_deny", "mcp.principal": "alice", "http.response.status_code": "403", "mcp.method.name": "tasks/get", "mcp.task.handle": "t-1", "error.type": "policy_denied"}, "policy_eval", true},
		{call("11", "safe"), "tools/call safe", []string{"MCP-Protocol-Version", "2025-06-18"}, map[string]string{"mcp.protocol.version": "2025-06-18", "mcp.policy.rule_id": "tools", "mcp.upstream": "main", "mcp.principal": "alice", "http.response.status_code": "200", "mcp.method.name": "tools/call", "gen_ai.tool.name": "safe"}, "policy_eval provider", false},
	}
	for _, tt := range tests {
		r.post(tt.body, tt.headers...)
		time.Sleep(time.Millisecond) // in order of their start
	}
	for _, path := range []string{"/healthz", "/readyz"} { // create no spans
		r.do(http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+path, "")
	}
	lines := r.lines(len(tests))
	r.stop()
	roots := c.roots()
	if len(roots) != len(tests) {
		t.Fatalf("%d spans of requests, want %d", len(roots), len(tests))
	}
	for i, tt := range tests {
		t.Run(tt.name+" "+tt.body, func(t *testing.T) {
			s := roots[i]
			got := spanAttributes(s)
			for _, k := range []string{"mcp.policy.decision", "mcp.policy.rule_id", "mcp.upstream", "mcp.principal", "mcp.task.handle",
				"http.response.status_code", "mcp.method.name", "gen_ai.tool.name", "error.type", "mcp.protocol.version"} {
				if k == "mcp.method.name" && tt.name == "POST /mcp" {
					continue
				}
				if k == "gen_ai.tool.name" && tt.name == "POST /mcp" {
					continue
				}
				if got[k] != tt.want[k] {
					t.Errorf("%s = %q, want %q", k, got[k], tt.want[k])
				}
			}
			if tt.name != "POST /mcp" && s.Name != tt.name {
				t.Errorf("name %q, want %q", s.Name, tt.name)
			}
			if failed := s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR; failed != tt.failed {
				t.Errorf("status %v", s.Status)
			}
			stages := ""
			for _, name := range []string{"policy_eval", "guardrail", "provider"} {
				if st := c.children(s)[name]; st != nil {
					stages = strings.TrimSpace(stages + " " + name)
					if st.StartTimeUnixNano < s.StartTimeUnixNano || st.EndTimeUnixNano > s.EndTimeUnixNano {
						t.Errorf("%s exceeds the request", name)
					}
				}
			}
			if stages != tt.stages {
				t.Errorf("stages %q, want %q", stages, tt.stages)
			}
			if want := fmt.Sprintf("%x", s.TraceId); lines[i]["trace_id"] != want {
				t.Errorf("audit line has trace_id %v, want %s", lines[i]["trace_id"], want)
			}
		})
	}
}

// W3C trace context: an inbound trace is continued, the upstream receives the gateway's span as
// parent, and only the format of the headers is trusted.
func TestTraceContext(t *testing.T) {
	meta := func(more string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","_meta":{` + more + `}}}`
	}
	tests := []struct {
		name, body string
		headers    []string
		trace      string // "" is a new one
		sampled    bool
		state      string
	}{
		{"none", call("1", "safe"), nil, "", true, ""},
		{"header", call("1", "safe"), []string{"traceparent", someParent, "tracestate", "a=b"}, someTrace, true, "a=b"},
		{"header of a caller that does not record", call("1", "safe"), []string{"traceparent", someParent[:53] + "00"}, someTrace, false, ""},
		{"_meta", meta(`"progressToken":1,"traceparent":"` + someParent + `","tracestate":"c=d"`), nil, someTrace, true, "c=d"},
		{"the same in header and _meta", meta(`"traceparent":"` + someParent + `"`), []string{"traceparent", someParent}, someTrace, true, ""},
		{"header before _meta", meta(`"traceparent":"00-11111111111111111111111111111111-b7ad6b7169203331-01","tracestate":"c=d"`), []string{"traceparent", someParent}, someTrace, true, ""},
		{"not a traceparent", call("1", "safe"), []string{"traceparent", "junk", "tracestate", "a=b"}, "", true, ""},
		{"two traceparents", call("1", "safe"), []string{"traceparent", someParent, "+traceparent", someParent}, "", true, ""},
		{"junk in _meta", meta(`"traceparent":"junk","tracestate":"a=b"`), nil, "", true, ""},
		{"a number in _meta", meta(`"traceparent":1`), nil, "", true, ""},
	}
	c := newOTLPCollector(t)
	u := newUpstream(t, echo)
	r := newRig(t, basic(u.URL)+"telemetry:\n"+pipeline("operator", c.URL, ""))
	for _, tt := range tests {
		if got := r.post(tt.body, tt.headers...); got.status != 200 {
			t.Fatalf("%s: %d %s", tt.name, got.status, got.body)
		}
	}
	r.stop()
	spans := map[string]*tracepb.Span{}
	for _, root := range c.roots() {
		if p := c.children(root)["provider"]; p != nil {
			spans[fmt.Sprintf("%x-%x", p.TraceId, p.SpanId)] = p
		}
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen := u.seen()[i]
			values := seen.header["Traceparent"]
			if len(values) != 1 || len(values[0]) != 55 {
				t.Fatalf("the upstream received %q", values)
			}
			told := values[0]
			if tt.trace != "" && told[3:35] != tt.trace || tt.trace == "" && told[3:35] == someTrace {
				t.Errorf("the upstream received %s", told)
			}
			if tt.sampled != (spans[told[3:52]] != nil) || tt.sampled != strings.HasSuffix(told[53:], "1") && tt.trace != "" {
				t.Errorf("the upstream received %s; recorded %v", told, spans[told[3:52]])
			}
			if !tt.sampled && told != tt.headers[1] {
				t.Errorf("the unset sampled flag became %s", told)
			}
			if got := seen.header.Get("Tracestate"); got != tt.state {
				t.Errorf("tracestate %q, want %q", got, tt.state)
			}
			want := tt.body // _meta has the same parent; nothing else changes
			if at := strings.Index(want, `"traceparent":"00-`+someTrace); at >= 0 {
				at += len(`"traceparent":"`)
				want = want[:at] + told + want[at+len(told):]
			}
			if seen.body != want {
				t.Errorf("the body became %s\nwant %s", seen.body, want)
			}
		})
	}
}

// With telemetry off trace context is forwarded unchanged.
func TestTraceContextWithoutTelemetry(t *testing.T) {
	u := newUpstream(t, echo)
	r := newRig(t, basic(u.URL))
	r.post(call("1", "safe"), "traceparent", someParent, "tracestate", "a=b")
	r.post(call("2", "safe"))
	if s := u.seen(); s[0].header.Get("Traceparent") != someParent || s[0].header.Get("Tracestate") != "a=b" || s[1].header["Traceparent"] != nil {
		t.Errorf("the upstream received %v, %v", s[0].header, s[1].header)
	}
	if lines := r.lines(2); lines[0]["trace_id"] != someTrace || lines[1]["trace_id"] != nil {
		t.Errorf("audit lines %v", lines)
	}
}

// One trace through a client of the OpenTelemetry SDK and two gateways: every span is a child of
// the previous one.
func TestTraceThroughTwoGateways(t *testing.T) {
	c := newOTLPCollector(t)
	u := newUpstream(t, echo)
	section := "telemetry:\n" + pipeline("customer", c.URL, "")
	inner := newRig(t, basic(u.URL)+section+"auth: {enabled: false}\n")
	outer := newRig(t, basic(inner.url)+section+pipeline("operator", c.URL, ", sample_ratio: 0"))

	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(c.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	ctx, span := provider.Tracer("client").Start(context.Background(), "agent")
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if got := outer.post(call("1", "safe"), "traceparent", carrier["traceparent"]); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	span.End()
	if err := provider.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	outer.stop()
	inner.stop()

	// agent > outer > provider of outer > inner > provider of inner > upstream
	at := span.SpanContext().SpanID().String()
	for i := range 2 {
		var next *tracepb.Span
		for _, root := range c.roots() {
			if fmt.Sprintf("%x", root.ParentSpanId) == at && fmt.Sprintf("%x", root.TraceId) == span.SpanContext().TraceID().String() {
				next = root
			}
		}
		if next == nil {
			t.Fatalf("gateway %d has no span below %s", i, at)
		}
		asked := c.children(next)["provider"]
		if asked == nil || asked.Kind != tracepb.Span_SPAN_KIND_CLIENT {
			t.Fatalf("gateway %d did not call its upstream: %v", i, asked)
		}
		at = fmt.Sprintf("%x", asked.SpanId)
	}
	if told := u.seen()[0].header.Get("Traceparent"); !strings.Contains(told, at) {
		t.Errorf("the upstream received %s, want parent %s", told, at)
	}
}

// A reload applies sample_ratio and no other change of telemetry.
func TestSampleRatioReloads(t *testing.T) {
	customer, operator := newOTLPCollector(t), newOTLPCollector(t)
	u := newUpstream(t, echo)
	r := newRig(t, basic(u.URL)+"telemetry:\n"+pipeline("customer", customer.URL, ", sample_ratio: 0")+pipeline("operator", operator.URL, ""))
	r.post(call("1", "safe"))
	r.edit("sample_ratio: 0", "sample_ratio: 1, service_name: other")
	if err := r.gateway.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.post(call("2", "safe"))
	ready := r.do(http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+"/readyz", "")
	r.stop()
	if a, b := len(customer.roots()), len(operator.roots()); a != 1 || b != 2 {
		t.Errorf("customer got %d, operator %d; want 1 and 2", a, b)
	}
	if !strings.Contains(ready.body, `"restart_pending":["telemetry.customer.service_name"]`) {
		t.Errorf("readyz %s", ready.body)
	}
}

// An OTLP endpoint that hangs does not affect requests.
func TestHangingOTLPEndpoint(t *testing.T) {
	release := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hang.Close()
	defer close(release)
	u := newUpstream(t, echo)
	r := newRig(t, basic(u.URL)+"telemetry:\n"+pipeline("customer", hang.URL, ""))
	begun := time.Now()
	for range 200 {
		if got := r.post(call("1", "safe")); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("200 requests took %v", took)
	}
	begun = time.Now()
	r.stop()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
}
