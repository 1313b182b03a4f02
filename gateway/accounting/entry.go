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

// The stages of a request, as traces have them.
const (
	stagePolicy    = "policy_eval"
	stageGuardrail = "guardrail"
	stageProvider  = "provider"
	stageScan      = "pii_scan"      // texts were looked at
	stageQuality   = "quality_score" // an answer was scored
)

// Books are where requests are recorded. They are safe for concurrent use.
type Books struct {
	Audit   *audit.Log
	Tracer  *telemetry.Tracer  // nil when no spans are exported
	Metrics *telemetry.Metrics // nil when no metrics are served
	Log     *slog.Logger
	// Since is the time since a moment by the gateway's clock.
	Since func(time.Time) time.Duration
}

// Entry is one request as its audit line, its spans and its metrics tell it: who sent
// which message where to, how long each step took, and the record that grows with it.
// The steps of the request fill it in. It belongs to the goroutine of the request;
// [Entry.Fill] and [Entry.Now] only read.
type Entry struct {
	Books *Books
	HTTP  *http.Request

	Start   time.Time
	Address string // of the client
	Who     caller.Identity
	// ControlPlane names the agent and the environment of the lines.
	ControlPlane *report.Config

	Received   *intake.Body // what was read of the body
	Message    mcp.Message  // what was judged, and what is sent
	HasMessage bool
	Dialect    mcp.Dialect
	Session    multiplex.Request
	Upstream   *transport.Upstream

	SentUp     time.Time // when the upstream was asked
	JudgedFrom time.Time // when the rules were asked
	Judging    time.Duration
	Asked      Asked
	ScanFrom   time.Time
	Scan       time.Duration // how long texts were looked at
	Governing  time.Duration // how long policies judged the answer
	Graded     time.Duration // how long the answer was scored

	Record  audit.Record
	Spans   []audit.Span // the room for those of Record
	Audited bool         // the request line is written
	Counted bool         // a summary has the request; it has no line of its own
	Began   bool         // the header of an event stream is sent
	// Waiting answers the client while the goroutine of the request waits for the disk.
	Waiting audit.Caller

	place place // in its trace
}

// Asked is how long guardrails were asked about a request, and about its answer.
type Asked struct{ Request, Answer time.Duration }

// Now is the time, for telling how long something takes: the clock of the day is
// not asked again.
func (e *Entry) Now() time.Time { return e.Start.Add(e.Books.Since(e.Start)) }

// Account completes the request line and hands it to the audit log. It returns
// once the line has reached the file, before the last byte of the answer is
// sent: a killed process leaves no answer without its line. The line of a
// caller who has left is written all the same.
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

// Fill fills in the members that the lines of all kinds have in common: who
// sent the request, and what message of which upstream the line is about. For the
// line of a frame it only reads the exchange, because the frames of several
// upstreams are recorded at the same time.
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

// recordedDialect is the dialect as audit lines have it: the declared revision, or
// "legacy". A request that was refused before its dialect was resolved has the
// one that its header, or what was read of its body, declares.
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
	if e.Message.TaskID != "" { // else what the answer named, if it made a task
		e.Record.TaskHandle = e.Message.TaskID
	}
}

// Write appends the record; a failure is logged where it stops.
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
