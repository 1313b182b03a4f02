package telemetry

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is an OTLP endpoint that decodes with the generated types.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*tracepb.Span
	batches []*collectorpb.ExportTraceServiceRequest
	headers []http.Header
	paths   []string
	answer  func(n int, w http.ResponseWriter) // nil accepts
	calls   int
}

func newCollector(t testing.TB) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls++
		if c.answer != nil {
			rec := httptest.NewRecorder()
			c.answer(c.calls, rec)
			for k, v := range rec.Header() {
				w.Header()[k] = v
			}
			if rec.Code >= 300 {
				w.WriteHeader(rec.Code)
				return
			}
			defer w.Write(rec.Body.Bytes())
		}
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
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return // an export that was aborted by a stop: its spans are sent again
		}
		if err != nil {
			t.Error(err)
		}
		req := &collectorpb.ExportTraceServiceRequest{}
		if err := proto.Unmarshal(data, req); err != nil {
			t.Errorf("not an ExportTraceServiceRequest: %v", err)
			return
		}
		c.batches = append(c.batches, req)
		c.headers = append(c.headers, r.Header)
		c.paths = append(c.paths, r.URL.Path)
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) count() (spans, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.spans), c.calls
}

// start runs a Tracer until stop, or the end of the test.
func start(t testing.TB, opts Options, cfgs ...Config) (tr *Tracer, stop func()) {
	t.Helper()
	tr, err := New(cfgs, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { tr.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return tr, stop
}

func record(tr *Tracer, edit func(*Span)) Trace {
	now := time.Now()
	s := Span{Trace: tr.Begin(Context{}), HTTPMethod: "POST", Method: "tools/call", Tool: "search", Status: 200, Start: now, End: now.Add(time.Millisecond)}
	if edit != nil {
		edit(&s)
	}
	tr.Record(&s)
	return s.Trace
}

func attributes(kvs []*commonpb.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range kvs {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			m[kv.Key] = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_DoubleValue:
			m[kv.Key] = fmt.Sprint(v.DoubleValue)
		}
	}
	return m
}

// Every attribute of the specification arrives at a collector, with resource,
// scope and parent.
func TestSpanAttributesOfTheSpecification(t *testing.T) {
	for _, gz := range []bool{false, true} {
		t.Run(fmt.Sprintf("gzip %v", gz), func(t *testing.T) {
			c := newCollector(t)
			tr, stop := start(t, Options{Version: "1.2.3"}, Config{
				Name: "customer", Endpoint: c.URL + "/base/", Headers: map[string]string{"X-Api-Key": "k"}, ServiceName: "gw",
				ResourceAttrs: map[string]string{"deployment.environment.name": "prod", "service.name": "not this"}, SampleRatio: 1, Gzip: gz,
			})
			parent, _ := ParseTraceparent(parentText)
			begun := time.Unix(1700000000, 5)
			s := Span{
				Trace: tr.Begin(parent), Start: begun, End: begun.Add(time.Second), HTTPMethod: "POST", Method: "tools/call",
				Tool: "search", Version: "2026-07-28", Status: 403, ErrorType: "policy_denied", Decision: "guardrail", RuleID: "r", Labels: []string{"private", "untrusted"}, Sets: []string{"private"},
				Upstream: "main", Principal: "alice", OAuthClientName: "Planner", ClientName: "claude-code", ClientVersion: "2.1", TaskHandle: "t1",
				Approval: "granted", ApprovalID: "apr_1", ApprovedBy: "usr_1",
				GuardrailName: "pii", GuardrailVerdict: "reject", GuardrailLatency: 1500 * time.Microsecond,
				MessageID: "request-7", Session: "s-1", ClientAddress: "192.0.2.7", HTTPVersion: "1.1", URI: "file:///a",
				UpstreamNetwork: "tcp", UpstreamHost: "tools.example", UpstreamPort: 8443, UpstreamErrorType: "503",
			}
			s.AddStage(Stage{Name: "policy_eval", Start: begun, End: begun.Add(time.Millisecond)})
			s.AddStage(Stage{Name: "provider", Start: begun.Add(time.Millisecond), End: begun.Add(time.Second), Upstream: true})
			tr.Record(&s)
			stop()

			if len(c.spans) != 3 {
				t.Fatalf("%d spans, want 3", len(c.spans))
			}
			root, policy, provider := c.spans[0], c.spans[1], c.spans[2]
			want := map[string]string{
				"http.request.method": "POST", "http.response.status_code": "403", "mcp.method.name": "tools/call",
				"mcp.protocol.version": "2026-07-28", "gen_ai.tool.name": "search", "gen_ai.operation.name": "execute_tool",
				"mcp.policy.decision": "guardrail", "mcp.policy.rule_id": "r", "mcp.upstream": "main", "mcp.principal": "alice", "svc.labels": "private,untrusted", "svc.sets": "private",
				"mcp.auth.oauth_client_name": "Planner", "mcp.client.name": "claude-code", "mcp.client.version": "2.1", "mcp.task.handle": "t1", "mcp.guardrail.name": "pii",
				"mcp.guardrail.verdict": "reject", "mcp.guardrail.latency_ms": "1.5", "error.type": "policy_denied",
				"jsonrpc.request.id": "request-7", "mcp.session.id": "s-1", "client.address": "192.0.2.7", "mcp.resource.uri": "file:///a",
				"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "1.1",
				"svc.approval": "granted", "svc.approval_id": "apr_1", "svc.approved_by": "usr_1",
			}
			got := attributes(root.Attributes)
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s = %q, want %q", k, got[k], v)
				}
			}
			if len(got) != len(want) || len(root.Attributes) != len(want) {
				t.Errorf("attributes %v", got)
			}
			if root.Name != "tools/call search" || root.Kind != tracepb.Span_SPAN_KIND_SERVER ||
				root.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || root.Flags != 0x301 ||
				fmt.Sprintf("%x %x", root.TraceId, root.ParentSpanId) != "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331" ||
				root.StartTimeUnixNano != uint64(begun.UnixNano()) || root.EndTimeUnixNano != uint64(begun.Add(time.Second).UnixNano()) {
				t.Errorf("root %v", root)
			}
			for _, child := range []*tracepb.Span{policy, provider} {
				if string(child.ParentSpanId) != string(root.SpanId) || string(child.TraceId) != string(root.TraceId) || child.Flags != 0x101 {
					t.Errorf("child %v", child)
				}
			}
			if policy.Name != "policy_eval" || policy.Kind != tracepb.Span_SPAN_KIND_INTERNAL ||
				provider.Name != "provider" || provider.Kind != tracepb.Span_SPAN_KIND_CLIENT ||
				string(provider.SpanId) != string(s.Trace.Upstream[:]) {
				t.Errorf("children %v, %v", policy, provider)
			}
			if got, want := attributes(provider.Attributes), (map[string]string{
				"mcp.upstream": "main", "mcp.method.name": "tools/call", "mcp.resource.uri": "file:///a", "network.transport": "tcp",
				"network.protocol.name": "http", "server.address": "tools.example", "server.port": "8443", "error.type": "503",
			}); !maps.Equal(got, want) || provider.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
				t.Errorf("upstream's stage: %v %v", got, provider.Status)
			}
			rs := c.batches[0].ResourceSpans[0]
			if res := attributes(rs.Resource.Attributes); len(res) != 3 || res["service.name"] != "gw" || res["service.version"] != "1.2.3" || res["deployment.environment.name"] != "prod" {
				t.Errorf("resource %v", res)
			}
			if rs.ScopeSpans[0].Scope.Name != "svc/gateway" {
				t.Errorf("scope %v", rs.ScopeSpans[0].Scope)
			}
			if c.paths[0] != "/base/v1/traces" || c.headers[0].Get("X-Api-Key") != "k" || c.headers[0].Get("Content-Type") != "application/x-protobuf" {
				t.Errorf("posted to %s with %v", c.paths[0], c.headers[0])
			}
		})
	}
}

// Names follow the conventions for MCP, and those for HTTP if no method was read;
// external texts are bounded and made valid.
func TestSpanNamesAndHostileTexts(t *testing.T) {
	c := newCollector(t)
	tr, stop := start(t, Options{}, Config{Name: "c", Endpoint: c.URL, ServiceName: "s", SampleRatio: 1})
	long := strings.Repeat("é", 1000)
	for _, edit := range []func(*Span){
		func(s *Span) {},
		func(s *Span) { s.Method, s.Tool = "ping", "" },
		func(s *Span) { s.Method, s.Tool = "", "" },
		func(s *Span) { s.HTTPMethod, s.Method, s.Tool = "BREW", "", "" },
		func(s *Span) { s.Tool = long },
		func(s *Span) { s.Method, s.Tool, s.Prompt = "prompts/get", "", "review" },
		func(s *Span) { s.Principal = "a\xff" },
	} {
		record(tr, edit)
	}
	stop()
	names := map[string]bool{}
	for _, s := range c.spans {
		names[s.Name] = true
		if p, ok := attributes(s.Attributes)["mcp.principal"]; ok && p != "a\uFFFD" {
			t.Errorf("principal %q", p)
		}
		if s.Status != nil {
			t.Errorf("status %v of a good span", s.Status)
		}
	}
	for _, want := range []string{"tools/call search", "prompts/get review", "ping", "POST /mcp", "HTTP /mcp", "tools/call " + strings.Repeat("é", 128)} {
		if !names[want] {
			t.Errorf("no span %q in %v", want, names)
		}
	}
}

// sample_ratio is parent-based with trace-id ratio, and can be changed at run
// time.
func TestSampling(t *testing.T) {
	tr, err := New([]Config{
		{Name: "all", Endpoint: "http://h", SampleRatio: 1},
		{Name: "quarter", Endpoint: "http://h", SampleRatio: .25},
		{Name: "none", Endpoint: "http://h", SampleRatio: 0},
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	shares := func() (hits [3]int) {
		for range n {
			tr := tr.Begin(Context{})
			for i := range hits {
				hits[i] += int(tr.mask >> i & 1)
			}
		}
		return hits
	}
	if got := shares(); got[0] != n || got[1] < n/5 || got[1] > n*3/10 || got[2] != 0 {
		t.Errorf("of %d traces %v were sampled", n, got)
	}
	tr.SetSampleRatio("all", 0)
	tr.SetSampleRatio("none", 1)
	tr.SetSampleRatio("stranger", 1)
	if got := shares(); got[0] != 0 || got[2] != n {
		t.Errorf("after a change %v", got)
	}
	// The caller has decided for all pipelines.
	yes, _ := ParseTraceparent(parentText)
	no, _ := ParseTraceparent(parentText[:53] + "00")
	sampled, left := tr.Begin(yes), tr.Begin(no)
	if sampled.mask != 7 || !sampled.Recorded() || left.mask != 0 || left.Recorded() {
		t.Errorf("masks %b, %b", sampled.mask, left.mask)
	}
	// The upstream's parent is the gateway's span; if nothing is recorded, the
	// caller's.
	if next := sampled.Next(); next.Trace != yes.Trace || next.Span != sampled.Upstream || !next.Sampled() {
		t.Errorf("goes on as %+v", next)
	}
	if next := left.Next(); next != no {
		t.Errorf("goes on as %+v", next)
	}
	for _, name := range []string{"all", "quarter", "none"} {
		tr.SetSampleRatio(name, 0)
	}
	if root := tr.Begin(Context{}); root.Next().Sampled() || !root.Next().Valid() {
		t.Errorf("an unsampled root goes on as %+v", root.Next())
	}
}

// Two pipelines export the same requests independently: a failure of one does not
// affect the other.
func TestTwoPipelines(t *testing.T) {
	good, bad := newCollector(t), newCollector(t)
	bad.answer = func(_ int, w http.ResponseWriter) { w.WriteHeader(400) }
	var logs syncBuffer
	tr, stop := start(t, Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))},
		Config{Name: "customer", Endpoint: good.URL, ServiceName: "a", SampleRatio: 1},
		Config{Name: "operator", Endpoint: bad.URL + "?token=hush", ServiceName: "b", SampleRatio: 1})
	for range 10 {
		record(tr, nil)
	}
	stop()
	stats := tr.Stats()
	if spans, _ := good.count(); spans != 10 || stats[0].Exported != 10 || stats[0].Failed != 0 {
		t.Errorf("%d spans, %+v", spans, stats[0])
	}
	if _, calls := bad.count(); calls != 1 || stats[1].Failed != 10 || stats[1].Exported != 0 {
		t.Errorf("a refusal for good was tried %d times, %+v", calls, stats[1])
	}
	if text := logs.String(); !strings.Contains(text, "pipeline=operator") || strings.Contains(text, "hush") {
		t.Errorf("log: %s", text)
	}
}

// Requests record from many goroutines while a pipeline sends.
func TestConcurrentRecords(t *testing.T) {
	c := newCollector(t)
	tr, stop := start(t, Options{}, Config{Name: "c", Endpoint: c.URL, ServiceName: "s", SampleRatio: 1})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				record(tr, nil)
				tr.SetSampleRatio("c", 1)
			}
		})
	}
	wg.Wait()
	stop()
	ids := map[string]bool{}
	for _, s := range c.spans {
		ids[string(s.SpanId)] = true
	}
	if s := tr.Stats()[0]; uint64(len(ids))+s.Dropped != 4000 || s.Exported != uint64(len(ids)) {
		t.Errorf("%d spans, %+v", len(ids), s)
	}
}

// BenchmarkSpan measures the whole cost of a request's spans, including encoding.
func BenchmarkSpan(b *testing.B) {
	tr, err := New([]Config{{Name: "c", Endpoint: "http://h", ServiceName: "s", SampleRatio: 1}}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	p := tr.pipelines[0]
	now := time.Now()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s := Span{Trace: tr.Begin(Context{}), Start: now, End: now, HTTPMethod: "POST", Method: "tools/call", Tool: "search",
			Version: "2026-07-28", Status: 200, RuleID: "tools", Upstream: "main", Principal: "alice"}
		s.AddStage(Stage{Name: "policy_eval", Start: now, End: now})
		s.AddStage(Stage{Name: "provider", Start: now, End: now, Upstream: true})
		tr.Record(&s)
		if i++; i == maxBatch {
			i = 0
			p.batch, _ = p.queue.take(p.batch[:0], maxBatch)
			p.body = p.encoder.encode(p.body[:0], p.batch)
		}
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
