package otlp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"svc/store/api"
)

func TestPartsAreBounded(t *testing.T) {
	p := newParts(10)
	for i := range 100 {
		for j := range 3 {
			p.add("ten", traceID{byte(i)}, spanID{byte(j)}, usage{input: 1})
		}
	}
	if p.count > 10 || p.order.Len() != len(p.traces) || len(p.traces) > 4 {
		t.Errorf("holds %d parts of %d traces", p.count, len(p.traces))
	}
	if got := p.sum("ten", traceID{99}, spanID{0}); got.input != 2 {
		t.Errorf("the newest trace came to %d", got.input)
	}
}

// A request of very many very short spans is rejected before memory is allocated
// for them.
func TestSpansAreBounded(t *testing.T) {
	var scope []byte
	for range maxSpans + 1 {
		scope = append(scope, 0x12, 0x00)
	}
	wrap := func(tag byte, body []byte) []byte {
		out := []byte{tag}
		n := len(body)
		for n >= 0x80 {
			out = append(out, byte(n)|0x80)
			n >>= 7
		}
		return append(append(out, byte(n)), body...)
	}
	wire := wrap(0x0a, wrap(0x12, scope))
	if _, err := Decode(Protobuf, wire); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("protobuf: %v", err)
	}
	text := `{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat("{},", maxSpans) + `{}]}]}]}`
	if _, err := Decode(JSON, []byte(text)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("JSON: %v", err)
	}
}

func zip(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// gzip is decompressed; every other encoding, and invalid gzip, is rejected.
func TestUnpack(t *testing.T) {
	r, err := Unpack(" GZIP", zip(t, []byte("hello")))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	for name, err := range map[string]error{
		"not gzip": second2(Unpack("gzip", []byte("hello"))),
		"deflate":  second2(Unpack("deflate", []byte("hello"))),
	} {
		if !errors.Is(err, errInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for encoding, want := range map[string]bool{"": true, "Identity": true, "gzip": false, "br": false} {
		if Plain(encoding) != want {
			t.Errorf("Plain(%q) is %v", encoding, !want)
		}
	}
}

func second2(_ io.Reader, err error) error { return err }

// A tree above the maximum of a trace is rejected and never lowered to it, because
// that would store a wrong cost.
func TestExcessiveSpansAreRejected(t *testing.T) {
	for name, spans := range map[string][]*tracepb.Span{
		"input tokens":   {sp(one, "", "chat", 0, 1, "gen_ai.usage.input_tokens", api.MaxTokens+1)},
		"output tokens":  {sp(one, "", "chat", 0, 1, "gen_ai.usage.output_tokens", 9_000_000_000_000)},
		"tokens as text": {sp(one, "", "chat", 0, 1, "gen_ai.usage.output_tokens", "9e12")},
		"cost":           {sp(one, "", "chat", 0, 1, "gen_ai.usage.cost", 10_000.01)},
		"sum of tokens": {sp(one, "", "plan", 0, 3), sp(two, one, "chat", 0, 1, "gen_ai.usage.input_tokens", api.MaxTokens),
			sp(three, one, "chat", 1, 2, "gen_ai.usage.input_tokens", 1)},
		"sum of costs": {sp(one, "", "plan", 0, 3), sp(two, one, "chat", 0, 1, "gen_ai.usage.cost", 10_000.0),
			sp(three, one, "chat", 1, 2, "gen_ai.usage.cost", 0.01)},
		"below the top": {sp(one, "", "plan", 0, 3, "gen_ai.agent.name", "a"), sp(two, one, "chat", 0, 1, "gen_ai.usage.input_tokens", 1e10)},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewAssembler(prices{}).Assemble("ten", decodeBoth(t, request(nil, spans...)))
			if len(r.Traces) != 0 || r.Rejected != len(spans) {
				t.Errorf("%d traces and %d of %d spans rejected", len(r.Traces), r.Rejected, len(spans))
			}
		})
	}
}

// Tokens can cost more, by the price table, than the maximum cost of a trace.
func TestExcessivePricesAreRejected(t *testing.T) {
	for tokens, want := range map[int]int{1000: 1, 1001: 0} {
		batch := decodeBoth(t, request(nil, sp(one, "", "chat", 0, 1, "gen_ai.request.model", "m", "gen_ai.usage.output_tokens", tokens)))
		if r := NewAssembler(dear{}).Assemble("ten", batch); len(r.Traces) != want || r.Rejected != 1-want {
			t.Errorf("%d tokens: %d traces, %d rejected", tokens, len(r.Traces), r.Rejected)
		}
	}
}

// dear prices a token at ten dollars.
type dear struct{}

func (dear) Cost(_, _ string, in, out, _, _ int64) (int64, bool) {
	return (in + out) * 10_000_000_000, true
}

// The decoder keeps the names of an object in memory, so their number is bounded,
// in objects that are read and in those that are skipped.
func TestObjectsAreBoundedWhileRead(t *testing.T) {
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"m%d":0,`, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for name, form := range map[string]string{
		"the request": `{%s}`, "a skipped member": `{"x":[[{%s}]]}`, "a span": `{"resourceSpans":[{"scopeSpans":[{"spans":[{%s}]}]}]}`,
	} {
		if _, err := Decode(JSON, fmt.Appendf(nil, form, members(maxMembers+1))); !errors.Is(err, errWide) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Decode(JSON, fmt.Appendf(nil, form, members(maxMembers))); errors.Is(err, errWide) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
