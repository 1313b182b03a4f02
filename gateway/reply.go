package gateway

import (
	"net/http"
	"runtime/debug"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
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
	shown := ex.composeRefusal(refused)
	if ex.countRefusal(refused) {
		shown.Write(ex.w, ex.own)
		return
	}
	if err := ex.account(refused.Status, len(ex.own)); err != nil && refused != &refusal.Audit {
		ex.refuse(&refusal.Audit)
		return
	}
	if !ex.rescued {
		shown.Write(ex.w, ex.own)
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

// composeRefusal makes the body of a refusal, and returns it as the client sees it. The
// body is not in the buffer of the upstream's answer, to which the record still refers.
func (ex *exchange) composeRefusal(refused *refusal.Refusal) *refusal.Refusal {
	reply := replyOf(ex, refused.ID(&ex.msg, ex.r.Method))
	ex.own = refused.AppendBody(ex.own[:0], reply)
	return refused.For(reply)
}

// replyOf is what the client gets beside a refusal.
func replyOf(ex *exchange, id []byte) *refusal.Reply {
	return &refusal.Reply{
		ID: id, RequestID: ex.rec.RequestID, Executed: ex.executed, Stateless: ex.dialect.Modern,
		ToolErrors: ex.live.cfg.Policy.DenyAs == policy.DenyAsToolError && ex.msg.Method == mcp.MethodToolsCall && ex.msg.Kind == mcp.Request,
	}
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
