package request

import (
	"net/http"
	"runtime/debug"
	"time"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
)

// Refuse responds with a refusal.
func (ex *Exchange) Refuse(refused *refusal.Refusal) {
	if ex.rescued {
		return // WriteOverdue has responded already
	}
	source := ex.source()
	endRead := ex.buffers.Body.LimitTime(source, ex.Live.Callers.Known(&ex.caller.id))
	if !ex.hasMessage && !refused.NullID && ex.HTTP.Method == http.MethodPost && ex.buffers.Body.Prefix(source, &ex.Message) != nil {
		refused = &refusal.Overloaded
	}
	endRead()
	ex.rejectStopped(refused)
	refused.Note(&ex.record)
	shown := ex.composeRefusal(refused)
	if ex.countRefusal(refused) {
		shown.Write(ex.Writer, ex.buffers.Own)
		return
	}
	if err := ex.account(refused.Status, len(ex.buffers.Own)); err != nil && refused != &refusal.Audit {
		ex.Refuse(&refusal.Audit)
		return
	}
	if !ex.rescued {
		shown.Write(ex.Writer, ex.buffers.Own)
	}
}

// rejectStopped sends the upstream an error for its server request when the client's answer to it
// was refused. It does nothing for callers who are not identified, or when the answer has already
// been sent.
func (ex *Exchange) rejectStopped(refused *refusal.Refusal) {
	sent := !ex.times.sentUp.IsZero() && refused != &refusal.Header // the upstream client returned it before it sent anything
	if !ex.caller.identified || sent {
		return
	}
	version := ex.dialect.Version
	if !ex.Services.Versions.Allows(ex.dialect) {
		version = ""
	}
	ex.Session.RejectStopped(ex.Context, refused, ex.record.RequestID, version)
}

// composeRefusal writes the body of a refusal, and returns the refusal for the client. It does
// not use the buffer of the upstream's response, to which the record still refers.
func (ex *Exchange) composeRefusal(refused *refusal.Refusal) *refusal.Refusal {
	reply := ex.replyOf(refused.ID(&ex.Message, ex.HTTP.Method))
	ex.buffers.Own = refused.AppendBody(ex.buffers.Own[:0], reply)
	return refused.For(reply)
}

// replyOf returns the parameters of a refusal's response.
func (ex *Exchange) replyOf(id []byte) *refusal.Reply {
	return &refusal.Reply{
		ID: id, RequestID: ex.record.RequestID, Executed: ex.executed, Stateless: ex.dialect.Modern,
		ToolErrors: ex.Live.Config.Policy.DenyAs == policy.DenyAsToolError && ex.Message.Method == mcp.MethodToolsCall && ex.Message.Kind == mcp.Request,
	}
}

// countRefusal reports whether a refused request, or a preflight, was only counted and has no
// audit line of its own, because its caller is not identified and the rate of such requests is
// high. It does not wait for the disk. When authentication is off every request has its line.
func (ex *Exchange) countRefusal(refused *refusal.Refusal) bool {
	if ex.caller.identified || ex.audited || ex.Live.Callers.Open() || !refused.Unidentified() || ex.Services.Refused.OwnLine(ex.caller.from.Addr, refused.Kind, ex.start) {
		return false
	}
	ex.counted = true
	ex.record.Status = refused.Status
	ex.record.Duration = ex.Services.Since(ex.start)
	return true
}

// WriteOverdue responds while the request's goroutine is blocked in a write to the disk. The
// connection is closed after the response, because the goroutine cannot read from it before the
// write has ended.
func (ex *Exchange) WriteOverdue() {
	defer ex.contain()
	ex.rescued = true
	ex.record.ErrorKind = refusal.Audit.Kind // for spans and metrics; the line is still being written
	refusal.CloseAfter(ex.Writer)
	ex.composeRefusal(&refusal.Audit)
	refusal.Audit.Write(ex.Writer, ex.buffers.Own)
	control := http.NewResponseController(ex.Writer)
	_ = control.SetWriteDeadline(time.Now().Add(overdueTimeout))
	_ = control.Flush()
}

// overdueTimeout bounds the write of a response by WriteOverdue.
const overdueTimeout = 5 * time.Second

// Recovered handles a panic: it responds with 500, writes an audit line and logs the panic.
func (ex *Exchange) Recovered() {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	ex.Services.Log.Error("panic while serving a request", "request_id", ex.record.RequestID, "panic", p, "stack", string(debug.Stack()))
	if !ex.audited && !ex.began {
		ex.Refuse(&refusal.Panic)
		return
	}
	ex.record.ErrorKind = refusal.Panic.Kind
	_ = ex.account(http.StatusOK, ex.streamed.Sent)
	_ = http.NewResponseController(ex.Writer).Flush() // flush the bytes written so far
	panic(http.ErrAbortHandler)                       // the response has begun: cut the connection
}

// contain recovers a panic in the goroutine of WriteOverdue, which would end the process. It must
// be deferred.
func (ex *Exchange) contain() {
	if p := recover(); p != nil {
		ex.Services.Log.Error("panic", "in", "response while a write is blocked", "panic", p, "stack", string(debug.Stack()))
	}
}
