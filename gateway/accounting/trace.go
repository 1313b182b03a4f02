package accounting

import (
	"time"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/telemetry"
	"svc/gateway/upstream"
)

// place is the position of a request in its trace. It is determined at the first use.
type place struct {
	telemetry.Trace
	known      bool
	fromHeader bool   // the caller's traceparent was a header
	state      string // the caller's tracestate in params._meta
}

// traced returns the request's position in its trace, and determines it at the first call: the
// child of the traceparent header, or of that in params._meta if there is no header, or the root
// of a new trace. The gateway must have a tracer.
func (e *Entry) traced() *place {
	p := &e.place
	if p.known {
		return p
	}
	p.known = true
	var parent telemetry.Context
	switch values := e.HTTP.Header["Traceparent"]; {
	case len(values) == 1:
		parent, p.fromHeader = telemetry.ParseTraceparent(values[0])
	case len(values) == 0 && e.HasMessage && e.Message.Kind != mcp.Response && e.Message.Spans.Meta.Present():
		parent, p.state, _ = telemetry.FromMeta(e.Message.Spans.Meta.Of(e.Message.Body))
	}
	p.Trace = e.Books.Tracer.Begin(parent)
	return p
}

// TraceID returns the W3C trace id of the audit line.
func (e *Entry) TraceID() string {
	if e.Books.Tracer == nil {
		return traceID(e.HTTP.Header["Traceparent"])
	}
	return e.traced().ID.String()
}

// PassTrace sets the gateway's own span as the parent of the upstream's spans: in the header, and
// in params._meta if the message has the trace context there, for upstreams that read _meta.
// Without a tracer the caller's trace context is forwarded unchanged. The tracestate is forwarded
// only with the parent that it belongs to.
func (e *Entry) PassTrace(h *upstream.Header) {
	if e.Books.Tracer == nil {
		return
	}
	p := e.traced()
	var text [64]byte
	h.Set("Traceparent", string(p.Next().AppendTraceparent(text[:0])))
	if e.HasMessage && e.Message.Kind != mcp.Response && e.Message.Spans.Meta.Present() {
		telemetry.MoveMeta(e.Message.Spans.Meta.Of(e.Message.Body), p.Next())
	}
	if p.fromHeader {
		return
	}
	h.Del("Tracestate")
	if p.state != "" {
		h.Add("Tracestate", p.state)
	}
}

// Observe records a finished request in spans and metrics. It runs on the request's goroutine
// after the response, and never blocks.
func (e *Entry) Observe() {
	o := e.Books
	if o.Tracer == nil && o.Metrics == nil {
		return
	}
	if !e.Audited && !e.Counted { // a panic cut its response
		e.Describe()
		e.Record.Duration = e.Books.Since(e.Start)
	}
	if e.Record.ErrorKind == refusal.Audit.Kind && !e.Began {
		e.Record.Status = refusal.Audit.Status // the accounted response was replaced by the error
	}
	end := e.Start.Add(e.Record.Duration)
	var provider time.Duration
	if !e.SentUp.IsZero() {
		provider = max(0, end.Sub(e.SentUp)-e.Asked.Answer-e.Governing-e.Graded)
	}
	if o.Metrics != nil {
		e.count(provider)
	}
	if o.Tracer != nil && !e.Counted && e.traced().Recorded() {
		e.span(end, provider)
	}
}

// count updates the metrics of the request.
func (e *Entry) count(provider time.Duration) {
	r := &e.Record
	asked := e.Asked.Request + e.Asked.Answer
	e.Books.Metrics.Observe(&telemetry.Request{
		Action: r.Action, Rule: r.RuleID, Upstream: r.Upstream, Status: r.Status, Stream: e.Began, Client: r.ClientName, Identified: e.Who.Key != nil || e.Who.Token != nil,
		Gateway: max(0, r.Duration-provider-asked), UpstreamTime: provider,
	})
	for _, o := range r.Observed {
		e.Books.Metrics.Observed(o.RuleID, o.Action)
	}
	for _, p := range r.PoliciesFired {
		e.Books.Metrics.PolicyFired(p.Action)
	}
}

// span records the request's spans (gateway specification, Spans).
func (e *Entry) span(end time.Time, provider time.Duration) {
	r := &e.Record
	s := telemetry.Span{
		Trace: e.place.Trace, Start: e.Start, End: end,
		HTTPMethod: e.HTTP.Method, Method: r.Method, Tool: r.Tool, Version: e.Dialect.Version, Status: r.Status,
		ErrorType: ErrorType(r), Decision: Decision(r), RuleID: r.RuleID, Upstream: r.Upstream, RequestID: r.RequestID, Reason: refusal.ReasonOf(r.Action, r.ErrorKind),
		Principal: r.Principal, OAuthClientName: r.OAuthClientName, ClientName: r.ClientName, ClientVersion: r.ClientVersion, TaskHandle: r.TaskHandle,
		GuardrailName: r.GuardrailName, GuardrailVerdict: r.GuardrailVerdict, GuardrailLatency: r.GuardrailLatency,
	}
	// By the monotonic clock, so that no stage exceeds its request.
	since := func(t time.Time) time.Time { return e.Start.Add(t.Sub(e.Start)) }
	if e.Judging > 0 {
		from := since(e.JudgedFrom)
		judged := from.Add(e.Judging)
		s.AddStage(telemetry.Stage{Name: stagePolicy, Start: from, End: judged})
		if d := e.Asked.Request; d > 0 {
			s.AddStage(telemetry.Stage{Name: stageGuardrail, Start: judged, End: judged.Add(d)})
		}
	}
	if d := e.Scan; d > 0 && !e.ScanFrom.IsZero() {
		from := since(e.ScanFrom)
		s.AddStage(telemetry.Stage{Name: stageScan, Start: from, End: from.Add(d)})
	}
	if !e.SentUp.IsZero() {
		s.AddStage(telemetry.Stage{Name: stageProvider, Start: since(e.SentUp), End: since(e.SentUp).Add(provider), Upstream: true})
	}
	if d := e.Asked.Answer; d > 0 {
		s.AddStage(telemetry.Stage{Name: stageGuardrail, Start: end.Add(-d), End: end})
	}
	e.Books.Tracer.Record(&s)
}

// traceID returns the trace id of a W3C traceparent header, or "" if it is malformed.
func traceID(values []string) string {
	if len(values) != 1 {
		return ""
	}
	v := values[0]
	if len(v) < 55 || v[2] != '-' || v[35] != '-' || v[52] != '-' || len(v) > 55 && v[:2] == "00" {
		return ""
	}
	id := v[3:35]
	zero := true
	for i := range len(id) {
		c := id[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
		zero = zero && c == '0'
	}
	if zero {
		return ""
	}
	return id
}
