package otlp

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"svc/store/api"
)

// prices has one model, at one nano-dollar per input token and two per output
// token.
type prices struct{}

func (prices) Cost(provider, model string, in, out, read, creation int64) (int64, bool) {
	if model != "m" && model != "m-dated" {
		return 0, false
	}
	return in + 2*out - read/2 + creation, in+out > 0 // a token read from the cache costs half, one written to it twice the price
}

const (
	traceA  = "0102030405060708090a0b0c0d0e0f10"
	began   = 1_790_000_000_000_000_000
	second  = 1_000_000_000
	billing = "billing"
)

// attr makes a list of attributes from pairs.
func attr(pairs ...any) []*common.KeyValue {
	var out []*common.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		v := &common.AnyValue{}
		switch x := pairs[i+1].(type) {
		case string:
			v.Value = &common.AnyValue_StringValue{StringValue: x}
		case int:
			v.Value = &common.AnyValue_IntValue{IntValue: int64(x)}
		case float64:
			v.Value = &common.AnyValue_DoubleValue{DoubleValue: x}
		case bool:
			v.Value = &common.AnyValue_BoolValue{BoolValue: x}
		default:
			panic(fmt.Sprintf("attribute of type %T", x))
		}
		out = append(out, &common.KeyValue{Key: pairs[i].(string), Value: v})
	}
	return out
}

func sp(id, parent, name string, from, to uint64, attributes ...any) *tracepb.Span {
	raw := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			panic(err)
		}
		return b
	}
	s := &tracepb.Span{
		TraceId: raw(traceA), SpanId: raw(id), Name: name,
		StartTimeUnixNano: began + from*second, EndTimeUnixNano: began + to*second,
		Attributes: attr(attributes...),
	}
	if parent != "" {
		s.ParentSpanId = raw(parent)
	}
	return s
}

const (
	one   = "0000000000000001"
	two   = "0000000000000002"
	three = "0000000000000003"
	four  = "0000000000000004"
)

func request(resource []*common.KeyValue, spans ...*tracepb.Span) *collector.ExportTraceServiceRequest {
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: resource},
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}},
	}}}
}

// asJSON encodes a request as OTLP/JSON: protobuf's JSON mapping except for
// the ids, which are hexadecimal.
func asJSON(t testing.TB, r *collector.ExportTraceServiceRequest) []byte {
	t.Helper()
	out, err := protojson.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	s := string(out)
	for _, rs := range r.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			for _, span := range ss.Spans {
				for _, id := range [][]byte{span.TraceId, span.SpanId, span.ParentSpanId} {
					if len(id) > 0 {
						b64, _ := protojson.Marshal(&common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: id}})
						_, enc, _ := strings.Cut(string(b64), ":")
						enc = strings.TrimSuffix(strings.TrimSpace(enc), "}")
						s = strings.ReplaceAll(s, enc, `"`+hex.EncodeToString(id)+`"`)
					}
				}
			}
		}
	}
	return []byte(s)
}

// decodeBoth decodes a request in both formats and checks that the results
// are equal.
func decodeBoth(t testing.TB, r *collector.ExportTraceServiceRequest) *Batch {
	t.Helper()
	wire, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Decode(Protobuf, wire)
	if err != nil {
		t.Fatalf("protobuf: %v", err)
	}
	text := asJSON(t, r)
	j, err := Decode(JSON, text)
	if err != nil {
		t.Fatalf("JSON: %v\n%s", err, text)
	}
	if diff := cmp.Diff(b, j, cmp.AllowUnexported(Batch{}, span{}, attributes{})); diff != "" {
		t.Errorf("protobuf and JSON disagree:\n%s", diff)
	}
	return b
}

func assemble(t testing.TB, r *collector.ExportTraceServiceRequest) Result {
	t.Helper()
	return NewAssembler(prices{}).Assemble("ten", decodeBoth(t, r))
}

func oneTrace(t testing.TB, r *collector.ExportTraceServiceRequest) api.TraceInput {
	t.Helper()
	result := assemble(t, r)
	if len(result.Traces) != 1 || result.Rejected != 0 {
		t.Fatalf("got %d traces, %d rejected; want one", len(result.Traces), result.Rejected)
	}
	return result.Traces[0]
}
