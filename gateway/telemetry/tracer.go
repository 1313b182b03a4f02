package telemetry

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

	"svc/gateway/http1"
)

// Config is one pipeline (gateway specification, telemetry).
type Config struct {
	// Name distinguishes the pipelines in metrics and logs: customer, operator.
	Name string
	// Endpoint is the base URL; /v1/traces is appended.
	Endpoint string
	// Headers are sent with every export.
	Headers map[string]string
	// ServiceName is the resource attribute service.name.
	ServiceName string
	// ResourceAttrs are further resource attributes.
	ResourceAttrs map[string]string
	// SampleRatio is the share of traces that begin here to export, 0 to 1.
	SampleRatio float64
	// Gzip compresses exports.
	Gzip bool
}

// Options are the parameters of a Tracer.
type Options struct {
	// Version is service.version; may be empty.
	Version string
	// Logger logs failed exports and their recovery.
	Logger *slog.Logger
}

// Tracer passes the spans of requests to its pipelines. Its methods are safe for
// concurrent use.
type Tracer struct {
	pipelines []*pipeline
}

// New creates a Tracer with the pipelines; they export only while [Tracer.Run]
// runs. It opens no connection.
func New(pipelines []Config, opts Options) (*Tracer, error) {
	if len(pipelines) > maxPipelines {
		return nil, fmt.Errorf("telemetry: %d pipelines, at most %d are possible", len(pipelines), maxPipelines)
	}
	t := &Tracer{}
	for _, cfg := range pipelines {
		p, err := newPipeline(cfg, opts)
		if err != nil {
			return nil, fmt.Errorf("telemetry.%s: %w", cfg.Name, err)
		}
		t.pipelines = append(t.pipelines, p)
	}
	return t, nil
}

// maxPipelines is the number of bits in the mask of a Trace.
const maxPipelines = 8

// Trace is the position of one request in its trace.
type Trace struct {
	// ID is the trace: the caller's, or a new one.
	ID TraceID
	// Parent is the caller's position; invalid where the trace begins here.
	Parent Context
	// Server is the id of the request's span, Upstream the id of the stage that
	// calls the upstream.
	Server, Upstream SpanID

	flags byte  // of the traceparent for the upstream
	mask  uint8 // the pipelines that record the trace
}

// Begin determines the request's trace and the pipelines that record it: all if
// the caller records it, none if the caller does not, and, if the trace begins
// here, each pipeline by its sample ratio and the trace id.
func (t *Tracer) Begin(parent Context) Trace {
	tr := Trace{Parent: parent, Server: newSpanID(), Upstream: newSpanID()}
	switch {
	case !parent.Valid():
		tr.Parent = Context{}
		tr.ID = newTraceID()
		tr.flags = flagRandom
		for i, p := range t.pipelines {
			if p.samples(tr.ID) {
				tr.mask |= 1 << i
			}
		}
	default:
		tr.ID = parent.Trace
		tr.flags = parent.Flags & flagRandom
		if parent.Sampled() {
			tr.mask = 1<<len(t.pipelines) - 1
		}
	}
	if tr.mask != 0 {
		tr.flags |= flagSampled
	}
	return tr
}

// Recorded reports whether a pipeline records the request.
func (tr *Trace) Recorded() bool { return tr.mask != 0 }

// Next is the trace context for the upstream. If nothing is recorded it is the
// caller's own, so that no span is missing between the two.
func (tr *Trace) Next() Context {
	if tr.mask == 0 && tr.Parent.Valid() {
		return tr.Parent
	}
	return Context{Trace: tr.ID, Span: tr.Upstream, Flags: tr.flags}
}

// Record passes a span to the pipelines that record it. It retains nothing of s
// and never waits. The span is encoded once for all pipelines.
func (t *Tracer) Record(s *Span) {
	if s.Trace.mask == 0 {
		return
	}
	var scratch *[]byte
	for i, p := range t.pipelines {
		if s.Trace.mask&(1<<i) == 0 || !p.queue.admits(s.Trace.Server) {
			continue // do not encode a span that would be dropped
		}
		if scratch == nil {
			s.bound()
			scratch, _ = records.Get().(*[]byte)
			*scratch = appendRequest((*scratch)[:0], s)
		}
		p.queue.push(s.Trace.Server, *scratch)
	}
	if scratch != nil {
		http1.Released(*scratch)
		records.Put(scratch)
	}
}

// records are buffers for encoded spans. Their texts are bounded, and therefore
// the buffers are.
var records = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// SetSampleRatio changes the sample ratio of a pipeline, from the next request
// on. An unknown name is ignored.
func (t *Tracer) SetSampleRatio(name string, ratio float64) {
	for _, p := range t.pipelines {
		if p.cfg.Name == name {
			p.setRatio(ratio)
		}
	}
}

// Run exports spans until ctx ends, exports the remaining ones with a timeout of
// a few seconds, and returns.
func (t *Tracer) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, p := range t.pipelines {
		wg.Go(func() { p.run(ctx) })
	}
	wg.Wait()
}

// Stats is the state of a pipeline.
type Stats struct {
	// Name is the name of the pipeline.
	Name string
	// Queued counts the requests whose spans wait.
	Queued int
	// Exported counts requests whose spans the endpoint accepted, Dropped
	// requests that found the queue full, Failed requests whose batch was given
	// up, Rejected spans that the endpoint reported as rejected.
	Exported, Dropped, Failed, Rejected uint64
}

// Stats returns the state of each pipeline.
func (t *Tracer) Stats() []Stats {
	all := make([]Stats, len(t.pipelines))
	for i, p := range t.pipelines {
		all[i] = Stats{
			Name: p.cfg.Name, Queued: p.queue.len(), Dropped: p.queue.dropped.Load(),
			Exported: p.exported.Load(), Failed: p.failed.Load(), Rejected: p.rejected.Load(),
		}
	}
	return all
}

// ratio is a sample ratio, as the exclusive upper bound of the lower eight bytes
// of sampled trace ids (63 bits of them, as in the OpenTelemetry SDKs).
type ratio struct{ bound atomic.Uint64 }

func (r *ratio) setRatio(share float64) {
	switch {
	case share >= 1:
		r.bound.Store(math.MaxUint64)
	case share > 0:
		r.bound.Store(uint64(share * (1 << 63)))
	default:
		r.bound.Store(0)
	}
}

func (r *ratio) samples(id TraceID) bool {
	return binary.BigEndian.Uint64(id[8:])>>1 < r.bound.Load()
}
