package accounting

import (
	"log/slog"
	"net/http"
	"time"

	"svc/gateway/audit"
	"svc/gateway/caller"
	"svc/gateway/headers"
	"svc/gateway/intake"
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/report"
	"svc/gateway/telemetry"
	"svc/gateway/transport"
)

// The names of a request's stages in traces.
const (
	stagePolicy    = "policy_eval"
	stageGuardrail = "guardrail"
	stageProvider  = "provider"
	stageScan      = "pii_scan"      // scan of texts by policies
	stageQuality   = "quality_score" // score of an answer
)

// Books are the sinks that requests are recorded in. They are safe for concurrent use.
type Books struct {
	Audit   *audit.Log
	Tracer  *telemetry.Tracer  // nil when no spans are exported
	Metrics *telemetry.Metrics // nil when no metrics are served
	Log     *slog.Logger
	// Since returns the time since t by the gateway's clock.
	Since func(time.Time) time.Duration
}

// Entry is the record of one request for its audit line, spans and metrics: who sent which
// message to which upstream, and how long each step took. The steps of the request fill it in. It
// belongs to the goroutine of the request; [Entry.Fill] and [Entry.Now] only read it.
type Entry struct {
	Books *Books
	HTTP  *http.Request

	Start   time.Time
	Address string // of the client
	Who     caller.Identity
	// ControlPlane has the agent and the environment of the lines.
	ControlPlane *report.Config

	Received   *intake.Body // the bytes read of the body
	Message    mcp.Message  // the message as it is judged and forwarded
	HasMessage bool
	Dialect    mcp.Dialect
	Session    multiplex.Request
	Upstream   *transport.Upstream

	SentUp     time.Time // when the request was sent to the upstream
	JudgedFrom time.Time // when the evaluation of rules began
	Judging    time.Duration
	Asked      Asked
	ScanFrom   time.Time
	Scan       time.Duration // duration of the scan of texts
	Governing  time.Duration // how long policies judged the answer
	Graded     time.Duration // how long the answer was scored

	Record  audit.Record
	Spans   []audit.Span // the buffer of Record.Spans
	Audited bool         // the request line is written
	Counted bool         // the request is in a summary and has no line of its own
	Began   bool         // the header of an event stream is sent
	// Waiting responds to the client while the goroutine of the request waits for the disk.
	Waiting audit.Caller

	place place // in its trace
}

// Asked is the time that guardrails took for a request, and for its answer.
type Asked struct{ Request, Answer time.Duration }

// Now returns the time for measuring durations: Start plus the monotonic time since.
func (e *Entry) Now() time.Time { return e.Start.Add(e.Books.Since(e.Start)) }

// Account completes the request line and hands it to the audit log. It returns once the line has
// reached the file, which is before the last byte of the response is sent, so that a killed
// process leaves no complete response without its line. The line is also written when the client
// has disconnected.
func (e *Entry) Account(status, bytesOut int) error {
	if e.Audited {
		return nil
	}
	e.Audited = true
	now := e.Now()
	r := &e.Record
	r.Status = status
	r.BytesOut = int64(bytesOut)
	r.Duration = now.Sub(e.Start)
	e.Describe()
	e.Spans = e.Spans[:0]
	if e.Judging > 0 {
		e.Spans = append(e.Spans, audit.Span{Stage: stagePolicy, Duration: e.Judging})
	}
	if d := e.Scan; d > 0 {
		e.Spans = append(e.Spans, audit.Span{Stage: stageScan, Duration: d})
	}
	if d := e.Asked.Request + e.Asked.Answer; d > 0 {
		e.Spans = append(e.Spans, audit.Span{Stage: stageGuardrail, Duration: d})
	}
	if !e.SentUp.IsZero() {
		e.Spans = append(e.Spans, audit.Span{Stage: stageProvider, Duration: max(0, now.Sub(e.SentUp)-e.Asked.Answer-e.Governing-e.Graded)})
	}
	if d := e.Graded; d > 0 {
		e.Spans = append(e.Spans, audit.Span{Stage: stageQuality, Duration: d})
	}
	r.Spans = e.Spans
	return e.Write()
}

// Fill fills in the members that lines of all kinds share: who sent the request, and the message
// and the upstream of the line. For the line of a frame it only reads the entry, because the
// frames of several upstreams are recorded concurrently.
func (e *Entry) Fill(r *audit.Record, m *mcp.Message, up *transport.Upstream) {
	r.RequestID, r.TraceID, r.Session = e.Record.RequestID, e.Record.TraceID, e.Record.Session
	if r.TraceID == "" {
		r.TraceID = e.TraceID()
	}
	if r.Session == "" && e.Session.Joined {
		r.Session = e.Session.Handle.ID.String()
	}
	r.Method = m.Method
	if m.Method == mcp.MethodToolsCall {
		r.Tool = m.Name
	}
	if up != nil {
		r.Upstream = up.Name
	}
	r.Principal, r.PrincipalKind, r.KeyID = e.Who.Value, e.Who.Kind.String(), e.Who.KeyID
	r.OAuthClientName, r.ClientIP, r.ClientName, r.ClientVersion = e.Record.OAuthClientName, e.Address, e.Session.ClientInfo.Name, e.Session.ClientInfo.Version
	if cp := e.ControlPlane; len(cp.URL) > 0 {
		r.Agent, r.Environment = cp.AgentOf(e.Who.Value), cp.Environment
	}
	r.Dialect = e.recordedDialect()
}

// recordedDialect returns the dialect for audit lines: the declared revision, or "legacy". A
// request that was refused before its dialect was resolved has the one that its header, or the
// part of its body that was read, declares.
func (e *Entry) recordedDialect() string {
	if e.Dialect.Declared() {
		return e.Dialect.Version
	}
	version, _ := headers.Single(e.HTTP.Header, intake.HeaderVersion)
	return mcp.ResolveDialect(&e.Message, version).String()
}

// Describe fills in the record of the request itself.
func (e *Entry) Describe() {
	e.Record.BytesIn = int64(len(e.Received.Bytes))
	e.Fill(&e.Record, &e.Message, e.Upstream)
	if e.Message.TaskID != "" { // otherwise the handle of the task that the answer created, if any
		e.Record.TaskHandle = e.Message.TaskID
	}
}

// Write appends the record to the audit log, and logs a failure.
func (e *Entry) Write() error {
	var waiting audit.Caller
	if !e.Began {
		waiting = e.Waiting
	}
	err := e.Books.Audit.WriteFor(waiting, &e.Record)
	if err != nil {
		e.Books.Log.Error("audit line was not written", "request_id", e.Record.RequestID, "error", err)
	}
	return err
}
