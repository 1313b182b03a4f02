package gateway

import (
	"net/http"
	"runtime/debug"
	"time"

	"svc/gateway/audit"
	"svc/gateway/bodies"
	"svc/gateway/headers"
	"svc/gateway/intake"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/transport"
)

// refuse answers in the upstream's place.
func (ex *exchange) refuse(refused *refusal.Refusal) {
	if ex.rescued {
		return // it was answered while its goroutine waited
	}
	source := ex.source()
	endRead := ex.body.LimitTime(source, ex.live.callers.Known(&ex.who))
	if !ex.hasMsg && !refused.NullID && ex.r.Method == http.MethodPost && ex.body.Prefix(source, &ex.msg) != nil {
		refused = &refusal.Overloaded
	}
	endRead()
	ex.rejectStopped(refused)
	refused.Note(&ex.rec)
	ex.composeRefusal(refused)
	if ex.countRefusal(refused) {
		refused.Write(ex.w, ex.own)
		return
	}
	if err := ex.account(refused.Status, len(ex.own)); err != nil && refused != &refusal.Audit {
		ex.refuse(&refusal.Audit)
		return
	}
	if !ex.rescued {
		refused.Write(ex.w, ex.own)
	}
}

// rejectStopped answers a server's request in the place of the client, whose answer
// to it was refused. It does nothing for callers who were not identified, and nothing
// once the answer was sent.
func (ex *exchange) rejectStopped(refused *refusal.Refusal) {
	sent := !ex.sentUp.IsZero() && refused != &refusal.Header // which the upstream client found before it sent anything
	if !ex.identified || sent {
		return
	}
	version := ex.dialect.Version
	if !ex.g.versions.Allows(ex.dialect) {
		version = ""
	}
	ex.session.RejectStopped(ex.ctx, refused, ex.rec.RequestID, version)
}

// composeRefusal makes the body of a refusal. It is not in the buffer of the
// upstream's answer, to which the record still refers.
func (ex *exchange) composeRefusal(refused *refusal.Refusal) {
	ex.own = refused.AppendBody(ex.own[:0], &refusal.Reply{
		ID: refused.ID(&ex.msg, ex.r.Method), RequestID: ex.rec.RequestID, Executed: ex.executed,
	})
}

// countRefusal reports whether a refused request, or a preflight, was counted, and
// so has no audit line of its own: its caller was not identified, and others like
// it came at a high rate. It then waits for no disk. Where nobody is asked for credentials every
// request has its line.
func (ex *exchange) countRefusal(refused *refusal.Refusal) bool {
	if ex.identified || ex.audited || ex.live.callers.Open() || !refused.Unidentified() || ex.g.refused.OwnLine(ex.addr, refused.Kind, ex.start) {
		return false
	}
	ex.counted = true
	ex.rec.Status = refused.Status
	ex.rec.Duration = ex.g.since(ex.start)
	return true
}

// countBytes says of a share of the bytes in memory whose it is.
func (ex *exchange) countBytes(s *bodies.Share) {
	s.Begin(ex.g.bodies, bodies.Caller{Who: &ex.who.Principal, Known: ex.live.callers.Known(&ex.who), Open: ex.live.callers.Open()})
}

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
		ex.spans = append(ex.spans, audit.Span{Stage: stageProvider, Duration: now.Sub(ex.sentUp) - ex.asking.answer - ex.governed.answer - ex.graded})
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
	if cp := &ex.live.cfg.ControlPlane; cp.URL != "" {
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

// WriteOverdue answers while the request's goroutine waits for the disk, in its
// place. The connection ends behind the answer, for nothing on it is read before
// the write has ended.
func (ex *exchange) WriteOverdue() {
	defer ex.g.contain("answer in the place of a write", nil)
	ex.rescued = true
	ex.rec.ErrorKind = refusal.Audit.Kind // for spans and metrics; the line is on its way
	refusal.CloseAfter(ex.w)
	ex.composeRefusal(&refusal.Audit)
	refusal.Audit.Write(ex.w, ex.own)
	control := http.NewResponseController(ex.w)
	_ = control.SetWriteDeadline(time.Now().Add(overdueTimeout))
	_ = control.Flush()
}

// overdueTimeout bounds how long an answer in the place of a write may take.
const overdueTimeout = 5 * time.Second

// recovered answers a panic with 500, an audit line and a log entry; the
// process goes on.
func (ex *exchange) recovered() {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	ex.g.log.Error("panic while serving a request", "request_id", ex.rec.RequestID, "panic", p, "stack", string(debug.Stack()))
	if !ex.audited && !ex.began {
		ex.refuse(&refusal.Panic)
		return
	}
	ex.rec.ErrorKind = refusal.Panic.Kind
	_ = ex.account(http.StatusOK, ex.streamed.Sent)
	_ = http.NewResponseController(ex.w).Flush() // what was written before may go
	panic(http.ErrAbortHandler)                  // the answer has begun: cut it
}

// contain keeps a panic in a goroutine of the gateway's own from ending the
// process. It is deferred; after runs when there was one.
func (g *Gateway) contain(what string, after func()) {
	p := recover()
	if p == nil {
		return
	}
	g.log.Error("panic", "in", what, "panic", p, "stack", string(debug.Stack()))
	if after != nil {
		after()
	}
}

// The stages of a request, as traces have them.
const (
	stagePolicy    = "policy_eval"
	stageGuardrail = "guardrail"
	stageProvider  = "provider"
)

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
