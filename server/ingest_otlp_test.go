package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"svc/store/api"
)

// An agent that is instrumented with OpenTelemetry's GenAI conventions sends traces
// with only its exporter's endpoint and a header set.
func TestOTLPRealExporter(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []otlptracehttp.Option
	}{
		{"protobuf", nil},
		{"protobuf gzip", []otlptracehttp.Option{otlptracehttp.WithCompression(otlptracehttp.GzipCompression)}},
		{"JSON", []otlptracehttp.Option{otlptracehttp.WithEncoding(otlptracehttp.EncodingJSON)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			key, _ := r.key(r.admin, "ingest")
			srv := httptest.NewServer(r.srv)
			defer srv.Close()
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL+"/api/otlp")
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20"+key)

			ctx := context.Background()
			exporter, err := otlptracehttp.New(ctx, test.opts...)
			if err != nil {
				t.Fatal(err)
			}
			provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(sdkresource.NewSchemaless(
				attribute.String("service.name", "support-bot"), attribute.String("deployment.environment.name", "staging"))))
			tracer := provider.Tracer("agent")
			agentCtx, agent := tracer.Start(ctx, "invoke_agent planner", trace.WithTimestamp(epoch), trace.WithAttributes(
				attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", "planner"),
				attribute.String("gen_ai.conversation.id", "conv-7")))
			_, chat := tracer.Start(agentCtx, "chat gpt-4o", trace.WithTimestamp(epoch.Add(time.Second)), trace.WithAttributes(
				attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "openai"),
				attribute.String("gen_ai.request.model", "gpt-4o"), attribute.String("gen_ai.response.model", "gpt-4o-2024-08-06"),
				attribute.Int("gen_ai.usage.input_tokens", 1000), attribute.Int("gen_ai.usage.output_tokens", 500)))
			chat.End(trace.WithTimestamp(epoch.Add(3 * time.Second)))
			_, tool := tracer.Start(agentCtx, "execute_tool refund", trace.WithTimestamp(epoch.Add(3*time.Second)), trace.WithAttributes(
				attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", "refund")))
			tool.End(trace.WithTimestamp(epoch.Add(4 * time.Second)))
			agent.SetStatus(codes.Error, "refund refused")
			agent.End(trace.WithTimestamp(epoch.Add(5 * time.Second)))
			_, other := tracer.Start(ctx, "GET /healthz")
			other.End()
			if err := provider.Shutdown(ctx); err != nil {
				t.Fatal(err)
			}

			items := r.ask(r.admin, "GET", "/api/traces", "").want(200).list()
			if len(items) != 1 {
				t.Fatalf("got %d traces: %v", len(items), items)
			}
			got := r.ask(r.admin, "GET", "/api/traces/"+items[0].id(t), "").want(200).data()
			got.is(t, "agentName", "planner", "environment", "staging", "sessionId", "conv-7", "status", "error",
				"modelProvider", "openai", "modelName", "gpt-4o", "inputTokens", 1000, "outputTokens", 500,
				"costUsd", 0.0075, "durationMs", 5000, "toolName", "refund")
			if spans := got["spans"].([]any); len(spans) != 2 {
				t.Errorf("spans are %v", spans)
			}
			agents := r.ask(r.admin, "GET", "/api/agents", "").want(200).list()
			if len(agents) != 1 || agents[0]["name"] != "planner" {
				t.Errorf("agents are %v", agents)
			}
			tools := r.ask(r.admin, "GET", "/api/agents/"+agents[0].id(t)+"/tools", "").want(200).list()
			if len(tools) != 1 || tools[0]["toolName"] != "refund" {
				t.Errorf("tools are %v", tools)
			}
		})
	}
}

// With an invalid key the exporter gets an error.
func TestOTLPRealExporterWithoutKey(t *testing.T) {
	r := newRig(t)
	srv := httptest.NewServer(r.srv)
	defer srv.Close()
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(srv.URL+"/api/otlp/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider()
	_, span := provider.Tracer("x").Start(ctx, "chat")
	span.End()
	if err := exporter.ExportSpans(ctx, []sdktrace.ReadOnlySpan{span.(sdktrace.ReadOnlySpan)}); err == nil {
		t.Error("an export without a key was reported as a success")
	}
}

// otlpSpans makes a request of n root spans.
func otlpSpans(t testing.TB, n int) []byte {
	t.Helper()
	var spans []*tracepb.Span
	for i := range n {
		spans = append(spans, &tracepb.Span{
			TraceId: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, byte(i >> 8), byte(i)},
			SpanId:  []byte{0, 0, 0, 0, 0, 0, 1, 1}, Name: "chat",
			StartTimeUnixNano: uint64(epoch.UnixNano()), EndTimeUnixNano: uint64(epoch.Add(time.Second).UnixNano()),
			Attributes: []*common.KeyValue{{Key: "gen_ai.system", Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: "openai"}}}},
		})
	}
	out, err := proto.Marshal(&collector.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

const otlpPath, protobufType = "/api/otlp/v1/traces", "application/x-protobuf"

// The ids of root spans make a request idempotent; a request may fill several
// batches of the store.
func TestOTLPIsIdempotent(t *testing.T) {
	r := newRig(t)
	body := otlpSpans(t, 2500)
	for range 2 {
		if a := r.post(r.admin, otlpPath, protobufType, "", body); a.status != 200 || len(a.raw) != 0 || a.header.Get("Content-Type") != protobufType {
			t.Fatalf("got %d, %q, %q", a.status, a.header.Get("Content-Type"), a.raw)
		}
		if got := r.ask(r.admin, "GET", "/api/traces?limit=1", "").want(200).object()["total"]; got != 2500.0 {
			t.Errorf("total is %v", got)
		}
	}
}

func packed(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// An invalid body, or more than 8 MiB unpacked, is a 400 with the API's error body.
func TestOTLPRefusals(t *testing.T) {
	r := newRig(t)
	for _, test := range []struct {
		name, contentType, encoding string
		body                        []byte
	}{
		{"junk protobuf", protobufType, "", []byte("junk")},
		{"junk JSON", "application/json", "", []byte("junk")},
		{"JSON array", "application/json", "", []byte("[]")},
		{"no content type", "", "", otlpSpans(t, 1)},
		{"other content type", "text/plain", "", otlpSpans(t, 1)},
		{"not gzip", protobufType, "gzip", otlpSpans(t, 1)},
		{"other encoding", protobufType, "br", otlpSpans(t, 1)},
		{"gzip bomb", protobufType, "gzip", packed(t, make([]byte, 64<<20))},
		{"large", protobufType, "", make([]byte, api.MaxIngestBody+1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if a := r.post(r.admin, otlpPath, test.contentType, test.encoding, test.body); a.status != 400 || a.header.Get("Content-Type") != contentType {
				t.Errorf("got %d %s: %s", a.status, a.header.Get("Content-Type"), a.raw)
			}
		})
	}
}

// Each tool that a trace's spans call is counted once per call; a duplicate trace
// counts nothing.
func TestOTLPCountsEveryToolOfATrace(t *testing.T) {
	r := newRig(t)
	span := func(id, name, tool string) string {
		parent := `,"parentSpanId":"0000000000000001"`
		if tool == "" {
			parent = ""
		}
		return `{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"000000000000000` + id + `"` + parent + `,"name":"` + name + `",
"startTimeUnixNano":"1790000000000000000","endTimeUnixNano":"1790000001000000000","attributes":[
{"key":"gen_ai.operation.name","value":{"stringValue":"` + name + `"}},{"key":"gen_ai.agent.name","value":{"stringValue":"planner"}},
{"key":"gen_ai.tool.name","value":{"stringValue":"` + tool + `"}}]}`
	}
	body := `{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Join([]string{span("1", "invoke_agent", ""), span("2", "execute_tool", "search"),
		span("3", "execute_tool", "search"), span("4", "execute_tool", "calc"), span("5", "execute_tool", "delete_db")}, ",") + `]}]}]}`
	for range 2 {
		if a := r.post(r.admin, "/api/otlp/v1/traces", "application/json", "", []byte(body)); a.status != 200 || string(a.raw) != "{}" {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	agent := r.ask(r.admin, "GET", "/api/agents", "").want(200).list()[0].id(t)
	got := map[string]any{}
	for _, tool := range r.ask(r.admin, "GET", "/api/agents/"+agent+"/tools", "").want(200).list() {
		got[fmt.Sprint(tool["toolName"])] = tool["callCount"]
	}
	if fmt.Sprint(got) != "map[calc:1 delete_db:1 search:2]" {
		t.Errorf("tools are %v", got)
	}
}

// Counts above the bounds of a trace are a partial success: the other traces of the
// request are stored, and no value is lowered to its bound.
func TestOTLPRejectsExcessiveCounts(t *testing.T) {
	r := newRig(t)
	span := func(trace string, tokens string) string {
		return `{"traceId":"` + trace + `","spanId":"0000000000000001","name":"chat","startTimeUnixNano":"1790000000000000000",
"endTimeUnixNano":"1790000001000000000","attributes":[{"key":"gen_ai.request.model","value":{"stringValue":"gpt-4o"}},
{"key":"gen_ai.usage.output_tokens","value":{"intValue":"` + tokens + `"}}]}`
	}
	body := `{"resourceSpans":[{"scopeSpans":[{"spans":[` + span("0102030405060708090a0b0c0d0e0f10", "9000000000000") + "," +
		span("0202030405060708090a0b0c0d0e0f10", "10") + `]}]}]}`
	a := r.post(r.admin, "/api/otlp/v1/traces", "application/json", "", []byte(body))
	partial := toObject(t, a.want(200).object()["partialSuccess"])
	partial.is(t, "rejectedSpans", "1")
	if why := fmt.Sprint(partial["errorMessage"]); !strings.Contains(why, "1000000000 tokens") {
		t.Errorf("the reason is %q", why)
	}
	items := r.ask(r.admin, "GET", "/api/traces", "").want(200).list()
	if len(items) != 1 || items[0]["outputTokens"] != 10.0 {
		t.Errorf("stored are %v", items)
	}
}

// A malformed span is rejected alone, in a partial success.
func TestOTLPPartialSuccess(t *testing.T) {
	r := newRig(t)
	body := `{"resourceSpans":[{"scopeSpans":[{"spans":[
		{"traceId":"00000000000000000000000000000000","spanId":"0000000000000001","name":"bad","attributes":[{"key":"gen_ai.system","value":{"stringValue":"x"}}]},
		{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0000000000000001","name":"good","startTimeUnixNano":"1790000000000000000","attributes":[{"key":"gen_ai.system","value":{"stringValue":"x"}}]}
	]}]}]}`
	a := r.post(r.admin, otlpPath, "application/json", "", []byte(body))
	partial := toObject(t, a.want(200).object()["partialSuccess"])
	partial.is(t, "rejectedSpans", "1")
	if partial["errorMessage"] == "" {
		t.Error("no message")
	}
	r.ask(r.admin, "GET", "/api/traces/0102030405060708090a0b0c0d0e0f10-0000000000000001", "").want(200)
}

// Spans that are in no trace are counted by instrumentation scope, in the answer of both formats and
// in a metric whose names are bounded.
func TestOTLPCountsDroppedSpans(t *testing.T) {
	r := newRig(t)
	wire, err := proto.Marshal(&collector.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{
		Scope: &common.InstrumentationScope{Name: "shop.http"},
		Spans: []*tracepb.Span{{TraceId: bytes.Repeat([]byte{1}, 16), SpanId: bytes.Repeat([]byte{2}, 8), Name: "GET /", StartTimeUnixNano: 1}},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var answer collector.ExportTraceServiceResponse
	if err := proto.Unmarshal(r.post(r.admin, otlpPath, protobufType, "", wire).want(200).raw, &answer); err != nil {
		t.Fatal(err)
	}
	if why := answer.GetPartialSuccess(); why.GetRejectedSpans() != 0 || !strings.HasSuffix(why.GetErrorMessage(), "by instrumentation scope: shop.http 1") {
		t.Errorf("answer %v", &answer)
	}
	for i := range maxScopes + 20 {
		body := fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0000000000000001","name":"x"}],"scope":{"name":"scope-%03d"}}]}]}`, i)
		partial := toObject(t, r.post(r.admin, otlpPath, "application/json", "", []byte(body)).want(200).object()["partialSuccess"])
		if why := fmt.Sprint(partial["errorMessage"]); !strings.HasPrefix(why, "1 of 1 spans were accepted and are in no trace") || !strings.HasSuffix(why, fmt.Sprintf("scope-%03d 1", i)) {
			t.Fatalf("answer %v", partial)
		}
	}
	w := httptest.NewRecorder()
	r.srv.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{`svc_otlp_spans_dropped_total{scope="shop.http"} 1`, `svc_otlp_spans_dropped_total{scope="scope-000"} 1`, `svc_otlp_spans_dropped_total{scope="other"} 21`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if n := strings.Count(text, "\nsvc_otlp_spans_dropped_total{"); n != maxScopes+1 {
		t.Errorf("%d names of scopes", n)
	}
}

// The paths of logs and metrics, which exporters add to a base URL, name the setting that turns these
// signals off.
func TestOTLPPathsOfOtherSignals(t *testing.T) {
	r := newRig(t)
	for path, want := range map[string]string{"logs": "OTEL_LOGS_EXPORTER=none", "metrics": "OTEL_METRICS_EXPORTER=none"} {
		if a := r.post(r.admin, "/api/otlp/v1/"+path, protobufType, "", nil).want(404); !strings.Contains(string(a.raw), want) {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	if a := r.post(r.admin, "/api/otlp/v1/profiles", protobufType, "", nil).want(404); strings.Contains(string(a.raw), "EXPORTER") {
		t.Errorf("profiles: %s", a.raw)
	}
}
