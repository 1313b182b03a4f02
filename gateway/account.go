package gateway

import (
	"time"

	"svc/gateway/accounting"
	"svc/gateway/audit"
	"svc/gateway/headers"
	"svc/gateway/intake"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/telemetry"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// The stages of a request, as traces have them.
const (
	stagePolicy    = "policy_eval"
	stageGuardrail = "guardrail"
	stageProvider  = "provider"
	stageScan      = "pii_scan"      // texts were looked at
	stageQuality   = "quality_score" // an answer was scored
)

// account completes the request line and hands it to the audit log. It returns
// once the line has reached the file, before the last byte of the answer is
// sent: a killed process leaves no answer without its line. The line of a
// caller who has left is written all the same.
func (ex *exchange) account(status, bytesOut int) error {
	if ex.audited {
		return nil
	}
	ex.audited = true
	now := ex.now()
	r := &ex.rec
	r.Status = status
	r.BytesOut = int64(bytesOut)
	r.Duration = now.Sub(ex.start)
	ex.describe()
	ex.spans = ex.spans[:0]
	if ex.judging > 0 {
		ex.spans = append(ex.spans, audit.Span{Stage: stagePolicy, Duration: ex.judging})
	}
	if d := ex.governed.scan; d > 0 {
		ex.spans = append(ex.spans, audit.Span{Stage: stageScan, Duration: d})
	}
	if d := ex.asking.request + ex.asking.answer; d > 0 {
		ex.spans = append(ex.spans, audit.Span{Stage: stageGuardrail, Duration: d})
	}
	if !ex.sentUp.IsZero() {
		ex.spans = append(ex.spans, audit.Span{Stage: stageProvider, Duration: max(0, now.Sub(ex.sentUp)-ex.asking.answer-ex.governed.answer-ex.graded)})
	}
	if d := ex.graded; d > 0 {
		ex.spans = append(ex.spans, audit.Span{Stage: stageQuality, Duration: d})
	}
	r.Spans = ex.spans
	return ex.write()
}

// fillRecord fills in the members that the lines of all kinds have in common: who
// sent the request, and what message of which upstream the line is about. For the
// line of a frame it only reads the exchange, because the frames of several
// upstreams are recorded at the same time.
func (ex *exchange) fillRecord(r *audit.Record, m *mcp.Message, up *transport.Upstream) {
	r.RequestID, r.TraceID, r.Session = ex.rec.RequestID, ex.rec.TraceID, ex.rec.Session
	if r.TraceID == "" {
		r.TraceID = ex.traceID()
	}
	if r.Session == "" && ex.session.Joined {
		r.Session = ex.session.Handle.ID.String()
	}
	r.Method = m.Method
	if m.Method == mcp.MethodToolsCall {
		r.Tool = m.Name
	}
	if up != nil {
		r.Upstream = up.Name
	}
	r.Principal, r.PrincipalKind, r.KeyID = ex.who.Value, ex.who.Kind.String(), ex.who.KeyID
	r.OAuthClientName, r.ClientIP = ex.rec.OAuthClientName, ex.address
	if cp := &ex.live.cfg.ControlPlane; len(cp.URL) > 0 {
		r.Agent, r.Environment = cp.AgentOf(ex.who.Value), cp.Environment
	}
	r.Dialect = ex.recordedDialect()
}

// recordedDialect is the dialect as audit lines have it: the declared revision, or
// "legacy". A request that was refused before its dialect was resolved has the
// one that its header, or what was read of its body, declares.
func (ex *exchange) recordedDialect() string {
	if ex.dialect.Declared() {
		return ex.dialect.Version
	}
	version, _ := headers.Single(ex.r.Header, intake.HeaderVersion)
	return mcp.ResolveDialect(&ex.msg, version).String()
}

// describe fills in the record of the request itself.
func (ex *exchange) describe() {
	ex.rec.BytesIn = int64(len(ex.body.Bytes))
	ex.fillRecord(&ex.rec, &ex.msg, ex.up)
	if ex.msg.TaskID != "" { // else what the answer named, if it made a task
		ex.rec.TaskHandle = ex.msg.TaskID
	}
}

// write appends the record; a failure is logged where it stops.
func (ex *exchange) write() error {
	var caller audit.Caller
	if !ex.began {
		caller = ex
	}
	err := ex.g.audit.WriteFor(caller, &ex.rec)
	if err != nil {
		ex.g.log.Error("audit line was not written", "request_id", ex.rec.RequestID, "error", err)
	}
	return err
}

// traced finds the request's place in its trace, once: behind the traceparent of
// the header, or that of params._meta where the header is absent, or at the
// beginning of a new trace. It is for gateways that trace.
func (ex *exchange) traced() *place {
	p := &ex.place
	if p.known {
		return p
	}
	p.known = true
	var parent telemetry.Context
	switch values := ex.r.Header["Traceparent"]; {
	case len(values) == 1:
		parent, p.fromHeader = telemetry.ParseTraceparent(values[0])
	case len(values) == 0 && ex.hasMsg && ex.msg.Kind != mcp.Response && ex.msg.Spans.Meta.Present():
		parent, p.state, _ = telemetry.FromMeta(ex.msg.Spans.Meta.Of(ex.msg.Body))
	}
	p.Trace = ex.g.observer.Tracer.Begin(parent)
	return p
}

// traceID is the W3C trace id of the audit line.
func (ex *exchange) traceID() string {
	if ex.g.observer.Tracer == nil {
		return traceID(ex.r.Header["Traceparent"])
	}
	return ex.traced().ID.String()
}

// passTrace names the gateway's own span as the parent of what the upstream does,
// in the header, and in the message where that carries the position too: an
// upstream that goes by _meta sees the same parent. Without a pipeline the
// caller's trace context has passed as it came. The tracestate goes along only
// with the position that it belongs to.
func (ex *exchange) passTrace(h *upstream.Header) {
	if ex.g.observer.Tracer == nil {
		return
	}
	p := ex.traced()
	var text [64]byte
	h.Set("Traceparent", string(p.Next().AppendTraceparent(text[:0])))
	if ex.hasMsg && ex.msg.Kind != mcp.Response && ex.msg.Spans.Meta.Present() {
		telemetry.MoveMeta(ex.msg.Spans.Meta.Of(ex.msg.Body), p.Next())
	}
	if p.fromHeader {
		return
	}
	h.Del("Tracestate")
	if p.state != "" {
		h.Add("Tracestate", p.state)
	}
}

// observe hands a finished request to spans and metrics. It runs after the
// answer was given, on the request's goroutine, and never waits.
func (ex *exchange) observe() {
	o := &ex.g.observer
	if o.Tracer == nil && o.Metrics == nil {
		return
	}
	if !ex.audited && !ex.counted { // its answer was cut short by a panic
		ex.describe()
		ex.rec.Duration = ex.g.since(ex.start)
	}
	if ex.rec.ErrorKind == refusal.Audit.Kind && !ex.began {
		ex.rec.Status = refusal.Audit.Status // what was accounted for is not what was answered
	}
	end := ex.start.Add(ex.rec.Duration)
	var provider time.Duration
	if !ex.sentUp.IsZero() {
		provider = max(0, end.Sub(ex.sentUp)-ex.asking.answer-ex.governed.answer-ex.graded)
	}
	if o.Metrics != nil {
		ex.count(provider)
	}
	if o.Tracer != nil && !ex.counted && ex.traced().Recorded() {
		ex.span(end, provider)
	}
}

// count counts the request.
func (ex *exchange) count(provider time.Duration) {
	r := &ex.rec
	asked := ex.asking.request + ex.asking.answer
	ex.g.observer.Metrics.Observe(&telemetry.Request{
		Action: r.Action, Rule: r.RuleID, Upstream: r.Upstream, Status: r.Status, Stream: ex.began,
		Gateway: max(0, r.Duration-provider-asked), UpstreamTime: provider,
	})
	for _, o := range r.Observed {
		ex.g.observer.Metrics.Observed(o.RuleID, o.Action)
	}
	for _, p := range r.PoliciesFired {
		ex.g.observer.Metrics.PolicyFired(p.Action)
	}
}

// span records the request's spans (gateway specification, Spans).
func (ex *exchange) span(end time.Time, provider time.Duration) {
	r := &ex.rec
	s := telemetry.Span{
		Trace: ex.place.Trace, Start: ex.start, End: end,
		HTTPMethod: ex.r.Method, Method: r.Method, Tool: r.Tool, Version: ex.dialect.Version, Status: r.Status,
		ErrorType: accounting.ErrorType(r), Decision: accounting.Decision(r), RuleID: r.RuleID, Upstream: r.Upstream, RequestID: r.RequestID, Reason: refusal.ReasonOf(r.Action, r.ErrorKind),
		Principal: r.Principal, OAuthClientName: r.OAuthClientName, TaskHandle: r.TaskHandle,
		GuardrailName: r.GuardrailName, GuardrailVerdict: r.GuardrailVerdict, GuardrailLatency: r.GuardrailLatency,
	}
	// By the monotonic clock, so that no stage stands beyond its request.
	since := func(t time.Time) time.Time { return ex.start.Add(t.Sub(ex.start)) }
	if ex.judging > 0 {
		from := since(ex.judgedFrom)
		judged := from.Add(ex.judging)
		s.AddStage(telemetry.Stage{Name: stagePolicy, Start: from, End: judged})
		if d := ex.asking.request; d > 0 {
			s.AddStage(telemetry.Stage{Name: stageGuardrail, Start: judged, End: judged.Add(d)})
		}
	}
	if d := ex.governed.scan; d > 0 && !ex.governed.scanFrom.IsZero() {
		from := since(ex.governed.scanFrom)
		s.AddStage(telemetry.Stage{Name: stageScan, Start: from, End: from.Add(d)})
	}
	if !ex.sentUp.IsZero() {
		s.AddStage(telemetry.Stage{Name: stageProvider, Start: since(ex.sentUp), End: since(ex.sentUp).Add(provider), Upstream: true})
	}
	if d := ex.asking.answer; d > 0 {
		s.AddStage(telemetry.Stage{Name: stageGuardrail, Start: end.Add(-d), End: end})
	}
	ex.g.observer.Tracer.Record(&s)
}

// traceID returns the trace id of a W3C traceparent header, or nothing when it
// is not one.
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
