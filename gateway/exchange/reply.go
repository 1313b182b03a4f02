package exchange

import (
	"net/http"
	"runtime/debug"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
)

// Refuse answers in the upstream's place.
func (ex *Exchange) Refuse(refused *refusal.Refusal) {
	if ex.rescued {
		return // it was answered while its goroutine waited
	}
	source := ex.source()
	endRead := ex.Body.LimitTime(source, ex.Live.Callers.Known(&ex.Who))
	if !ex.HasMessage && !refused.NullID && ex.HTTP.Method == http.MethodPost && ex.Body.Prefix(source, &ex.Message) != nil {
		refused = &refusal.Overloaded
	}
	endRead()
	ex.rejectStopped(refused)
	refused.Note(&ex.Record)
	shown := ex.composeRefusal(refused)
	if ex.CountRefusal(refused) {
		shown.Write(ex.Writer, ex.Own)
		return
	}
	if err := ex.Account(refused.Status, len(ex.Own)); err != nil && refused != &refusal.Audit {
		ex.Refuse(&refusal.Audit)
		return
	}
	if !ex.rescued {
		shown.Write(ex.Writer, ex.Own)
	}
}

// rejectStopped answers a server's request in the place of the client, whose answer
// to it was refused. It does nothing for callers who were not identified, and nothing
// once the answer was sent.
func (ex *Exchange) rejectStopped(refused *refusal.Refusal) {
	sent := !ex.SentUp.IsZero() && refused != &refusal.Header // which the upstream client found before it sent anything
	if !ex.Identified || sent {
		return
	}
	version := ex.Dialect.Version
	if !ex.Services.Versions.Allows(ex.Dialect) {
		version = ""
	}
	ex.Session.RejectStopped(ex.Context, refused, ex.Record.RequestID, version)
}

// composeRefusal makes the body of a refusal, and returns it as the client sees it. The
// Body is not in the buffer of the upstream's answer, to which the record still refers.
func (ex *Exchange) composeRefusal(refused *refusal.Refusal) *refusal.Refusal {
	reply := ex.ReplyOf(refused.ID(&ex.Message, ex.HTTP.Method))
	ex.Own = refused.AppendBody(ex.Own[:0], reply)
	return refused.For(reply)
}

// ReplyOf is what the client gets beside a refusal.
func (ex *Exchange) ReplyOf(id []byte) *refusal.Reply {
	return &refusal.Reply{
		ID: id, RequestID: ex.Record.RequestID, Executed: ex.Executed, Stateless: ex.Dialect.Modern,
		ToolErrors: ex.Live.Config.Policy.DenyAs == policy.DenyAsToolError && ex.Message.Method == mcp.MethodToolsCall && ex.Message.Kind == mcp.Request,
	}
}

// CountRefusal reports whether a refused request, or a preflight, was counted, and
// so has no audit line of its own: its caller was not identified, and others like
// it came at a high rate. It then waits for no disk. Where nobody is asked for credentials every
// request has its line.
func (ex *Exchange) CountRefusal(refused *refusal.Refusal) bool {
	if ex.Identified || ex.Audited || ex.Live.Callers.Open() || !refused.Unidentified() || ex.Services.Refused.OwnLine(ex.Addr, refused.Kind, ex.Start) {
		return false
	}
	ex.Counted = true
	ex.Record.Status = refused.Status
	ex.Record.Duration = ex.Services.Since(ex.Start)
	return true
}

// WriteOverdue answers while the request's goroutine waits for the disk, in its
// place. The connection ends behind the answer, for nothing on it is read before
// the write has ended.
func (ex *Exchange) WriteOverdue() {
	defer ex.contain()
	ex.rescued = true
	ex.Record.ErrorKind = refusal.Audit.Kind // for spans and metrics; the line is on its way
	refusal.CloseAfter(ex.Writer)
	ex.composeRefusal(&refusal.Audit)
	refusal.Audit.Write(ex.Writer, ex.Own)
	control := http.NewResponseController(ex.Writer)
	_ = control.SetWriteDeadline(time.Now().Add(overdueTimeout))
	_ = control.Flush()
}

// overdueTimeout bounds how long an answer in the place of a write may take.
const overdueTimeout = 5 * time.Second

// Recovered answers a panic with 500, an audit line and a log entry; the
// process goes on.
func (ex *Exchange) Recovered() {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	ex.Services.Log.Error("panic while serving a request", "request_id", ex.Record.RequestID, "panic", p, "stack", string(debug.Stack()))
	if !ex.Audited && !ex.Began {
		ex.Refuse(&refusal.Panic)
		return
	}
	ex.Record.ErrorKind = refusal.Panic.Kind
	_ = ex.Account(http.StatusOK, ex.Streamed.Sent)
	_ = http.NewResponseController(ex.Writer).Flush() // what was written before may go
	panic(http.ErrAbortHandler)                       // the answer has begun: cut it
}

// contain keeps a panic in the goroutine that answers in the place of a write from
// ending the process. It is deferred.
func (ex *Exchange) contain() {
	if p := recover(); p != nil {
		ex.Services.Log.Error("panic", "in", "answer in the place of a write", "panic", p, "stack", string(debug.Stack()))
	}
}
