package request

import (
	"time"

	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// The names of a request's stages in traces.
const (
	stagePolicy    = "policy_eval"
	stageGuardrail = "guardrail"
	stageProvider  = "provider"
	stageScan      = "pii_scan"      // scan of texts by policies
	stageQuality   = "quality_score" // score of an answer
	// The last stage of an event stream that a client opened to listen: the time that it was open.
	stageListening = audit.StageListening
)

// times are when the steps of a request began, and how long they took.
type times struct {
	sentUp       time.Time // when the request was sent to the upstream
	judgedFrom   time.Time // when the evaluation of rules began
	judging      time.Duration
	askedRequest time.Duration // how long guardrails took for the request
	askedAnswer  time.Duration // and for its answer
	scanFrom     time.Time
	scan         time.Duration // duration of the scan of texts
	governing    time.Duration // how long policies judged the answer
	graded       time.Duration // how long the answer was scored
	listening    time.Time     // when a stream began that the client opened to listen
}

// provider returns the time that the upstream took, given the end of the request: until it began the
// stream when the client listens.
func (t *times) provider(end time.Time) time.Duration {
	if t.sentUp.IsZero() {
		return 0
	}
	if !t.listening.IsZero() {
		return max(0, t.listening.Sub(t.sentUp))
	}
	return max(0, end.Sub(t.sentUp)-t.askedAnswer-t.governing-t.graded)
}

// listened returns how long the client has listened, given the end of the request.
func (t *times) listened(end time.Time) time.Duration {
	if t.listening.IsZero() {
		return 0
	}
	return max(0, end.Sub(t.listening))
}

// appendSpans appends the stages of a request that ends now, for its audit line.
func (t *times) appendSpans(spans []audit.Span, now time.Time) []audit.Span {
	if t.judging > 0 {
		spans = append(spans, audit.Span{Stage: stagePolicy, Duration: t.judging})
	}
	if t.scan > 0 {
		spans = append(spans, audit.Span{Stage: stageScan, Duration: t.scan})
	}
	if d := t.askedRequest + t.askedAnswer; d > 0 {
		spans = append(spans, audit.Span{Stage: stageGuardrail, Duration: d})
	}
	if !t.sentUp.IsZero() {
		spans = append(spans, audit.Span{Stage: stageProvider, Duration: t.provider(now)})
	}
	if t.graded > 0 {
		spans = append(spans, audit.Span{Stage: stageQuality, Duration: t.graded})
	}
	if !t.listening.IsZero() {
		spans = append(spans, audit.Span{Stage: stageListening, Duration: t.listened(now)})
	}
	return spans
}

// unwrittenEvery is the time between two log lines about audit lines that were not written.
const unwrittenEvery = time.Minute

// logUnwritten logs that an audit line was not written: the first at once, then one per minute
// with their number. The metrics and the statuses of responses count each.
func (s *Services) logUnwritten(r *audit.Record, err error) {
	if n, due := s.unwritten.Due(time.Now(), unwrittenEvery); due {
		s.Log.Error("audit line was not written", "kind", r.Kind, "request_id", r.RequestID, "error", err, "lines", n, "within", unwrittenEvery.String())
	}
}

// now returns the time for measuring durations: start plus the monotonic time since.
func (ex *Exchange) now() time.Time { return ex.start.Add(ex.Services.Since(ex.start)) }

// account completes the request line and hands it to the audit log. It returns once the line has
// reached the file, which is before the last byte of the response is sent, so that a killed
// process leaves no complete response without its line. The line is also written when the client
// has disconnected.
func (ex *Exchange) account(status, bytesOut int) error {
	if ex.audited {
		return nil
	}
	ex.audited = true
	now := ex.now()
	r := &ex.record
	r.Status = status
	r.BytesOut = int64(bytesOut)
	r.Duration = now.Sub(ex.start)
	r.Sets = ex.labels.all()
	ex.describe()
	ex.buffers.Spans = ex.times.appendSpans(ex.buffers.Spans[:0], now)
	r.Spans = ex.buffers.Spans
	return ex.write()
}

// fill fills in the members that lines of all kinds share: who sent the request, and the message
// and the upstream of the line. For the line of a frame it only reads the exchange, because the
// frames of several upstreams are recorded concurrently.
func (ex *Exchange) fill(r *audit.Record, m *mcp.Message, up *upstream.Upstream) {
	r.RequestID, r.TraceID, r.Session = ex.record.RequestID, ex.record.TraceID, ex.record.Session
	if r.TraceID == "" {
		r.TraceID = ex.traceID()
	}
	if r.Session == "" && ex.Session.Joined {
		r.Session = ex.Session.Handle.ID.String()
	}
	r.Method = m.Method
	switch m.Method {
	case mcp.MethodToolsCall:
		r.Tool = m.Name
	case mcp.MethodResourcesRead, mcp.MethodDirectoryRead, mcp.MethodSkillsGet:
		r.URI = withoutSecrets(m.URI)
	}
	if up != nil {
		r.Upstream = up.Name
	}
	r.Principal, r.PrincipalKind, r.KeyID, r.KeyN = ex.caller.id.Value, ex.caller.id.Kind.String(), ex.caller.id.KeyID, ex.caller.id.KeyN
	r.OAuthClientName, r.ClientIP, r.ClientName, r.ClientVersion = ex.record.OAuthClientName, ex.caller.from.Address, ex.Session.ClientInfo.Name, ex.Session.ClientInfo.Version
	if cp := &ex.Live.Config.ControlPlane; len(cp.URL) > 0 {
		r.Agent, r.Environment = cp.AgentOf(ex.caller.id.Value), cp.Environment
	}
	r.Dialect = ex.recordedDialect()
}

// recordedDialect returns the dialect for audit lines: the declared revision, or "legacy". A
// request that was refused before its dialect was resolved has the one that its header, or the
// part of its body that was read, declares.
func (ex *Exchange) recordedDialect() string {
	if ex.dialect.Declared() {
		return ex.dialect.Version
	}
	version, _ := mcp.Single(ex.HTTP.Header, HeaderVersion)
	return mcp.ResolveDialect(&ex.Message, version).String()
}

// describe fills in the record of the request itself.
func (ex *Exchange) describe() {
	ex.record.BytesIn = int64(len(ex.buffers.Body.Bytes))
	ex.fill(&ex.record, &ex.Message, ex.route.Upstream)
	if ex.Message.TaskID != "" { // otherwise the handle of the task that the answer created, if any
		ex.record.TaskHandle = ex.Message.TaskID
	}
}

// write appends the record to the audit log, and logs a failure.
func (ex *Exchange) write() error {
	var waiting audit.Caller // responds while this goroutine waits for the disk
	if !ex.began {
		waiting = ex
	}
	err := ex.Services.Audit.WriteFor(waiting, &ex.record)
	if err != nil {
		ex.Services.logUnwritten(&ex.record, err)
	}
	return err
}
