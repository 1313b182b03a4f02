package request

import (
	"time"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/telemetry"
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
func (ex *Exchange) traced() *place {
	p := &ex.trace
	if p.known {
		return p
	}
	p.known = true
	var parent telemetry.Context
	switch values := ex.HTTP.Header["Traceparent"]; {
	case len(values) == 1:
		parent, p.fromHeader = telemetry.ParseTraceparent(values[0])
	case len(values) == 0 && ex.hasMessage && ex.Message.Kind != mcp.Response && ex.Message.Spans.Meta.Present():
		parent, p.state, _ = telemetry.FromMeta(ex.Message.Spans.Meta.Of(ex.Message.Body))
	}
	p.Trace = ex.Services.Tracer.Begin(parent)
	return p
}

// traceID returns the W3C trace id of the audit line.
func (ex *Exchange) traceID() string {
	if ex.Services.Tracer == nil {
		return traceID(ex.HTTP.Header["Traceparent"])
	}
	return ex.traced().ID.String()
}

// passTrace sets the gateway's own span as the parent of the upstream's spans: in the header, and
// in params._meta if the message has the trace context there, for upstreams that read _meta.
// Without a tracer the caller's trace context is forwarded unchanged. The tracestate is forwarded
// only with the parent that it belongs to.
func (ex *Exchange) passTrace(h *mcp.Header) {
	if ex.Services.Tracer == nil {
		return
	}
	p := ex.traced()
	var text [64]byte
	h.Set("Traceparent", string(p.Next().AppendTraceparent(text[:0])))
	if ex.hasMessage && ex.Message.Kind != mcp.Response && ex.Message.Spans.Meta.Present() {
		telemetry.MoveMeta(ex.Message.Spans.Meta.Of(ex.Message.Body), p.Next())
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
func (ex *Exchange) Observe() {
	o := ex.Services
	if o.Tracer == nil && o.Metrics == nil {
		return
	}
	if !ex.audited && !ex.counted { // a panic cut its response
		ex.describe()
		ex.record.Duration = ex.Services.Since(ex.start)
	}
	if ex.record.ErrorKind == refusal.Audit.Kind && !ex.began {
		ex.record.Status = refusal.Audit.Status // the accounted response was replaced by the error
	}
	end := ex.start.Add(ex.record.Duration)
	provider := ex.times.provider(end)
	if o.Metrics != nil {
		ex.count(provider)
	}
	if o.Tracer != nil && !ex.counted && ex.traced().Recorded() {
		ex.span(end, provider)
	}
}

// count updates the metrics of the request.
func (ex *Exchange) count(provider time.Duration) {
	r := &ex.record
	asked := ex.times.askedRequest + ex.times.askedAnswer
	ex.Services.Metrics.Observe(&telemetry.Request{
		Action: r.Action, Rule: r.RuleID, Upstream: r.Upstream, Status: r.Status, Stream: ex.began, Client: r.ClientName, Identified: ex.caller.id.Key != nil || ex.caller.id.Token != nil,
		Operation: ex.operation(), Duration: r.Duration - ex.times.listened(ex.start.Add(r.Duration)),
		Gateway: max(0, r.Duration-provider-asked), UpstreamTime: provider,
	})
	if r.Approval != "" {
		ex.Services.Metrics.Approved(r.Approval)
	}
	for _, o := range r.Observed {
		ex.Services.Metrics.Observed(o.RuleID, o.Action)
	}
	for _, p := range r.PoliciesFired {
		ex.Services.Metrics.PolicyFired(p.Action)
	}
}

// span records the request's spans (gateway specification, Spans).
func (ex *Exchange) span(end time.Time, provider time.Duration) {
	r := &ex.record
	s := telemetry.Span{
		Trace: ex.trace.Trace, Start: ex.start, End: end,
		HTTPMethod: ex.HTTP.Method, Method: r.Method, Tool: r.Tool, Version: ex.dialect.Version, Status: r.Status,
		ErrorType: errorType(r), Decision: decision(r), RuleID: r.RuleID, Approval: r.Approval, ApprovalID: r.ApprovalID, ApprovedBy: r.ApprovedBy, Labels: r.Labels, Sets: r.Sets, Upstream: r.Upstream, RequestID: r.RequestID, Reason: refusal.ReasonOf(r.Action, r.ErrorKind),
		Principal: r.Principal, OAuthClientName: r.OAuthClientName, ClientName: r.ClientName, ClientVersion: r.ClientVersion, TaskHandle: r.TaskHandle,
		GuardrailName: r.GuardrailName, GuardrailVerdict: r.GuardrailVerdict, GuardrailLatency: r.GuardrailLatency,
	}
	ex.addConventions(&s)
	// By the monotonic clock, so that no stage exceeds its request.
	since := func(t time.Time) time.Time { return ex.start.Add(t.Sub(ex.start)) }
	if ex.times.judging > 0 {
		from := since(ex.times.judgedFrom)
		judged := from.Add(ex.times.judging)
		s.AddStage(telemetry.Stage{Name: stagePolicy, Start: from, End: judged})
		if d := ex.times.askedRequest; d > 0 {
			s.AddStage(telemetry.Stage{Name: stageGuardrail, Start: judged, End: judged.Add(d)})
		}
	}
	if d := ex.times.scan; d > 0 && !ex.times.scanFrom.IsZero() {
		from := since(ex.times.scanFrom)
		s.AddStage(telemetry.Stage{Name: stageScan, Start: from, End: from.Add(d)})
	}
	if !ex.times.sentUp.IsZero() {
		s.AddStage(telemetry.Stage{Name: stageProvider, Start: since(ex.times.sentUp), End: since(ex.times.sentUp).Add(provider), Upstream: true})
	}
	if d := ex.times.listened(end); d > 0 {
		s.AddStage(telemetry.Stage{Name: stageListening, Start: end.Add(-d), End: end})
	}
	if d := ex.times.askedAnswer; d > 0 {
		s.AddStage(telemetry.Stage{Name: stageGuardrail, Start: end.Add(-d), End: end})
	}
	ex.Services.Tracer.Record(&s)
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
