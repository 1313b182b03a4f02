package exchange

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

// rejectStopped sends the upstream an error for its server request when the client's answer to it
// was refused. It does nothing for callers who are not identified, or when the answer has already
// been sent.
func (ex *Exchange) rejectStopped(refused *refusal.Refusal) {
	sent := !ex.SentUp.IsZero() && refused != &refusal.Header // the upstream client returned it before it sent anything
	if !ex.Identified || sent {
		return
	}
	version := ex.Dialect.Version
	if !ex.Services.Versions.Allows(ex.Dialect) {
		version = ""
	}
	ex.Session.RejectStopped(ex.Context, refused, ex.Record.RequestID, version)
}

// composeRefusal writes the body of a refusal, and returns the refusal for the client. It does
// not use the buffer of the upstream's response, to which the record still refers.
func (ex *Exchange) composeRefusal(refused *refusal.Refusal) *refusal.Refusal {
	reply := ex.ReplyOf(refused.ID(&ex.Message, ex.HTTP.Method))
	ex.Own = refused.AppendBody(ex.Own[:0], reply)
	return refused.For(reply)
}

// ReplyOf returns the parameters of a refusal's response.
func (ex *Exchange) ReplyOf(id []byte) *refusal.Reply {
	return &refusal.Reply{
		ID: id, RequestID: ex.Record.RequestID, Executed: ex.Executed, Stateless: ex.Dialect.Modern,
		ToolErrors: ex.Live.Config.Policy.DenyAs == policy.DenyAsToolError && ex.Message.Method == mcp.MethodToolsCall && ex.Message.Kind == mcp.Request,
	}
}

// CountRefusal reports whether a refused request, or a preflight, was only counted and has no
// audit line of its own, because its caller is not identified and the rate of such requests is
// high. It does not wait for the disk. When authentication is off every request has its line.
func (ex *Exchange) CountRefusal(refused *refusal.Refusal) bool {
	if ex.Identified || ex.Audited || ex.Live.Callers.Open() || !refused.Unidentified() || ex.Services.Refused.OwnLine(ex.Addr, refused.Kind, ex.Start) {
		return false
	}
	ex.Counted = true
	ex.Record.Status = refused.Status
	ex.Record.Duration = ex.Services.Since(ex.Start)
	return true
}

// WriteOverdue responds while the request's goroutine is blocked in a write to the disk. The
// connection is closed after the response, because the goroutine cannot read from it before the
// write has ended.
func (ex *Exchange) WriteOverdue() {
	defer ex.contain()
	ex.rescued = true
	ex.Record.ErrorKind = refusal.Audit.Kind // for spans and metrics; the line is still being written
	refusal.CloseAfter(ex.Writer)
	ex.composeRefusal(&refusal.Audit)
	refusal.Audit.Write(ex.Writer, ex.Own)
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
	ex.Services.Log.Error("panic while serving a request", "request_id", ex.Record.RequestID, "panic", p, "stack", string(debug.Stack()))
	if !ex.Audited && !ex.Began {
		ex.Refuse(&refusal.Panic)
		return
	}
	ex.Record.ErrorKind = refusal.Panic.Kind
	_ = ex.Account(http.StatusOK, ex.Streamed.Sent)
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
