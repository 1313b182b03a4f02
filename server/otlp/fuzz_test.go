package otlp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// sample is a request as an instrumented agent sends it.
func sample() *collector.ExportTraceServiceRequest {
	return request(attr("service.name", billing, "deployment.environment", "production"),
		sp(two, one, "chat m", 1, 3, "gen_ai.operation.name", "chat", "gen_ai.system", "openai", "gen_ai.request.model", "m", "gen_ai.usage.input_tokens", 100, "gen_ai.usage.output_tokens", 20),
		sp(three, one, "execute_tool", 3, 4, "gen_ai.tool.name", "search", "ok", true, "ratio", 0.5),
		sp(one, "", "invoke_agent", 0, 5, "gen_ai.operation.name", "invoke_agent", "gen_ai.agent.name", "planner"))
}

func fuzz(f *testing.F, format Format) {
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Decode(format, data)
		if err != nil {
			if !errors.Is(err, errInvalid) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		a := NewAssembler(prices{})
		r := a.Assemble("ten", b)
		if r.Rejected > b.Spans {
			t.Fatalf("%d of %d spans rejected", r.Rejected, b.Spans)
		}
		for i := range r.Traces {
			if wrong := r.Traces[i].Validate(); wrong != nil {
				t.Fatalf("trace %d does not validate: %v", i, wrong)
			}
			if r.Traces[i].ID == "" {
				t.Fatal("trace without an id")
			}
		}
		again := NewAssembler(prices{}).Assemble("ten", b)
		if diff := cmp.Diff(r, again); diff != "" {
			t.Fatalf("the same batch differs:\n%s", diff)
		}
	})
}

func FuzzDecodeProtobuf(f *testing.F) {
	wire, err := proto.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	f.Add([]byte("\x0a\x04\x12\x02\x12\x00"))
	fuzz(f, Protobuf)
}

func FuzzDecodeJSON(f *testing.F) {
	f.Add(asJSON(f, sample()))
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"` + traceA + `","spanId":"` + one + `","attributes":[{"key":"gen_ai.usage.input_tokens","value":{"doubleValue":1e400}}]}]}]}]}`))
	fuzz(f, JSON)
}

// Messages that the generated code accepts are decoded to the same spans.
func FuzzProtobufAgainstGenerated(f *testing.F) {
	wire, err := proto.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	f.Fuzz(func(t *testing.T, data []byte) {
		var r collector.ExportTraceServiceRequest
		if proto.Unmarshal(data, &r) != nil || len(r.ProtoReflect().GetUnknown()) > 0 {
			return
		}
		spans := 0
		for _, rs := range r.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				spans += len(ss.Spans)
			}
		}
		b, err := Decode(Protobuf, data)
		if err != nil {
			if spans > maxSpans || strings.Contains(err.Error(), "no span has") || strings.Contains(err.Error(), "not an Export") {
				return
			}
			t.Fatalf("refused what the generated code accepts: %v", err)
		}
		if b.Spans != spans {
			t.Fatalf("got %d spans, generated code %d", b.Spans, spans)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	r := request(attr("service.name", billing, "deployment.environment", "production"))
	for i := range 512 {
		r.ResourceSpans[0].ScopeSpans[0].Spans = append(r.ResourceSpans[0].ScopeSpans[0].Spans,
			sp(fmt.Sprintf("%016x", i+1), "", "chat m", 1, 3, "gen_ai.operation.name", "chat", "gen_ai.provider.name", "openai", "gen_ai.request.model", "m",
				"gen_ai.usage.input_tokens", 100, "gen_ai.usage.output_tokens", 20, "server.address", "api.openai.com", "gen_ai.response.id", "chatcmpl-123"))
	}
	wire, err := proto.Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	for format, body := range map[Format][]byte{Protobuf: wire, JSON: asJSON(b, r)} {
		b.Run(format.ContentType(), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			a := NewAssembler(prices{})
			for b.Loop() {
				batch, err := Decode(format, body)
				if err != nil {
					b.Fatal(err)
				}
				if got := a.Assemble("ten", batch); len(got.Traces) != 512 {
					b.Fatal(len(got.Traces))
				}
			}
		})
	}
}
