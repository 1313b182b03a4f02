package peers

import (
	"context"
	"net"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// collector is the OTLP receiver of the OpenTelemetry Collector, over HTTP.
type collector struct {
	url  string
	sink *consumertest.TracesSink
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	address := freeAddress(t)
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig()
	settings := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}})
	if err := settings.Unmarshal(cfg); err != nil {
		t.Fatal(err)
	}
	c := &collector{url: "http://" + address, sink: new(consumertest.TracesSink)}
	receiver, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()), cfg, c.sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := receiver.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// span is one span as the collector decoded it, with the attributes of its
// resource.
type span struct {
	ptrace.Span
	resource map[string]any
}

func (s span) text(key string) string {
	if v, ok := s.Attributes().Get(key); ok {
		return v.AsString()
	}
	return ""
}

// spans returns the received spans.
func (c *collector) spans() []span {
	var all []span
	for _, traces := range c.sink.AllTraces() {
		for _, rs := range traces.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					all = append(all, span{s, rs.Resource().Attributes().AsRaw()})
				}
			}
		}
	}
	return all
}

// requests returns the spans of requests by their trace.
func (c *collector) requests() map[pcommon.TraceID]span {
	found := map[pcommon.TraceID]span{}
	for _, s := range c.spans() {
		if s.Kind() == ptrace.SpanKindServer {
			found[s.TraceID()] = s
		}
	}
	return found
}

// below returns the children of a span by their name.
func (c *collector) below(of span) map[string]span {
	found := map[string]span{}
	for _, s := range c.spans() {
		if s.ParentSpanID() == of.SpanID() && s.TraceID() == of.TraceID() {
			found[s.Name()] = s
		}
	}
	return found
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
