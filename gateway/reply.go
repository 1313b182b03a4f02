package gateway

import (
	"errors"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"svc/gateway/audit"
	"svc/gateway/bodies"
	"svc/gateway/headers"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/transport"
)

// drainTimeout bounds how long a body is read whose request was refused, for its id
// and by the server: what a caller who is not known sends may never come.
const (
	drainTimeout        = 5 * time.Second
	unknownDrainTimeout = 500 * time.Millisecond
)

// limitRead bounds the time of what is left of the body of a refused request. The
// function does so again: the server moves the deadline on with what is read.
func (ex *exchange) limitRead() (again func()) {
	if ex.bodyDone || ex.r.ContentLength == 0 {
		return func() {}
	}
	until := time.Now().Add(drainTimeout)
	if !ex.live.callers.Known(&ex.who) {
		until = time.Now().Add(unknownDrainTimeout)
	}
	control := http.NewResponseController(ex.w)
	_ = control.SetReadDeadline(until)
	return func() {
		if !ex.bodyDone {
			_ = control.SetReadDeadline(until)
		}
	}
}

// refuse answers in the upstream's place. Every answer to a request is JSON
// and carries the request's own id byte for byte: plain text or a null id in
// its place ends the session of some clients.
func (ex *exchange) refuse(refused *refusal.Refusal) {
	if ex.rescued {
		return // it was answered while its goroutine waited
	}
	endRead := ex.limitRead()
	if !ex.hasMsg && !refused.NullID && ex.r.Method == http.MethodPost {
		if errors.Is(ex.readPrefix(), bodies.ErrOverloaded) {
			refused = &refusal.Overloaded
		}
	}
	endRead()
	ex.rejectStopped(refused)
	if refused.Action != "" {
		ex.rec.Action = refused.Action
	} else if ex.rec.Action == "" {
		ex.rec.Action = audit.ActionDeny
	}
	if refused.Rule != "" {
		ex.rec.RuleID = refused.Rule
	}
	ex.rec.ErrorKind = refused.Kind
	ex.composeRefusal(refused)
	if ex.countRefusal(refused) {
		ex.respond(refused)
		return
	}
	if err := ex.account(refused.Status, len(ex.own)); err != nil && refused != &refusal.Audit {
		ex.refuse(&refusal.Audit)
		return
	}
	if !ex.rescued {
		ex.respond(refused)
	}
}

// composeRefusal makes the body of a refusal. It is not in the buffer of the
// upstream's answer, to which the record still refers.
func (ex *exchange) composeRefusal(refused *refusal.Refusal) {
	ex.own = mcp.AppendErrorBody(ex.own[:0], &mcp.ErrorBody{
		ID: ex.answerID(refused), Code: refused.Code, Message: refused.Message,
		Reason: refused.Reason, RequestID: ex.rec.RequestID,
		Supported: refused.Versions, Requested: refused.Requested,
		Executed: ex.executed && refused.Kind == refusal.Audit.Kind,
	})
}

// respond sends a refusal whose body was composed.
func (ex *exchange) respond(refused *refusal.Refusal) {
	body := ex.own
	h := ex.w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	if refused.RetryAfter > 0 || refused.Status == http.StatusTooManyRequests {
		h["Retry-After"] = []string{strconv.Itoa(max(1, int((refused.RetryAfter+time.Second-1)/time.Second)))}
	}
	if refused.Challenge != "" {
		h["Www-Authenticate"] = []string{refused.Challenge}
	}
	if refused.Allow != "" {
		h["Allow"] = []string{refused.Allow}
	}
	ex.w.WriteHeader(refused.Status)
	ex.w.Write(body)
}

// answerID is the id that a refusal carries: the request's, an empty string
// for a message that has none (see mcp.EmptyID), null where no message is.
func (ex *exchange) answerID(refused *refusal.Refusal) []byte {
	switch {
	case refused.NullID || ex.r.Method != http.MethodPost:
		return nil
	case ex.msg.Kind == mcp.Notification || ex.msg.Kind == mcp.Response:
		return []byte(mcp.EmptyID)
	}
	return ex.msg.ID
}

// readPrefix reads enough of the body to find its id, or what comes of it in time.
// Where the client waits to be asked for its body nothing is read: the answer is that
// nobody wants it.
func (ex *exchange) readPrefix() error {
	if ex.hasBody || len(ex.r.Header["Expect"]) > 0 {
		return nil
	}
	if err := ex.readUpTo(bodies.MaxPrefix); errors.Is(err, bodies.ErrOverloaded) {
		return err
	}
	// Only the id and the kind are of interest; the message was refused.
	if _, err := mcp.ScanReplacing(ex.in, &ex.msg); err != nil && ex.msg.ID == nil {
		ex.msg.ID = mcp.PeekID(ex.in)
	}
	return nil
}

// countBytes says of a share of the bytes in memory whose it is.
func (ex *exchange) countBytes(s *bodies.Share) {
	s.Begin(ex.g.bodies, bodies.Caller{Who: &ex.who.Principal, Known: ex.live.callers.Known(&ex.who), Open: ex.live.callers.Open()})
}

// readBody reads the whole body into ex.in, at most limit bytes.
func (ex *exchange) readBody(limit int) *refusal.Refusal {
	if ex.r.ContentLength > int64(limit) {
		closeAfter(ex.w)
		return &refusal.TooLarge
	}
	switch err := ex.readUpTo(limit); {
	case errors.Is(err, bodies.ErrTooLarge):
		closeAfter(ex.w)
		ex.msg.ID = mcp.PeekID(ex.in[:bodies.MaxPrefix])
		return &refusal.TooLarge
	case errors.Is(err, bodies.ErrOverloaded):
		closeAfter(ex.w)
		ex.msg.ID = mcp.PeekID(ex.in[:min(len(ex.in), bodies.MaxPrefix)])
		return &refusal.Overloaded
	case errors.Is(err, os.ErrDeadlineExceeded):
		closeAfter(ex.w)
		ex.msg.ID = mcp.PeekID(ex.in[:min(len(ex.in), bodies.MaxPrefix)])
		return &refusal.SlowBody
	case err != nil:
		closeAfter(ex.w)
		return &refusal.Unreadable
	}
	return nil
}

// readUpTo reads the body into ex.in. The server that runs the handler bounds
// the time it takes.
func (ex *exchange) readUpTo(limit int) (err error) {
	ex.hasBody = true
	ex.countBytes(&ex.bytes)
	ex.in, err = bodies.ReadAll(ex.in[:0], ex.r.Body, int64(limit), ex.r.ContentLength, &ex.bytes)
	ex.rec.BytesIn = int64(len(ex.in))
	ex.bodyDone = err == nil
	return err
}

// discardBody reads the body of a request that needs none: while one is unread
// the server does not notice that its client leaves.
func (ex *exchange) discardBody() *refusal.Refusal {
	if ex.r.ContentLength == 0 {
		return nil
	}
	return ex.readBody(bodies.MaxPrefix)
}

// closeAfter makes the server close the connection after this answer: the rest
// of the body is not worth reading.
func closeAfter(w http.ResponseWriter) {
	w.Header()["Connection"] = []string{"close"}
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
	if r.Session == "" && ex.hasHandle {
		r.Session = ex.handle.ID.String()
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
	version, _ := headers.Single(ex.r.Header, headerVersion)
	return mcp.ResolveDialect(&ex.msg, version).String()
}

// describe fills in the record of the request itself.
func (ex *exchange) describe() {
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
	closeAfter(ex.w)
	ex.composeRefusal(&refusal.Audit)
	ex.respond(&refusal.Audit)
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
