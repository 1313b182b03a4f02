package refusal

import (
	"net/http"
	"strconv"
	"time"

	"svc/gateway/audit"
	"svc/gateway/mcp"
)

// Note writes into the line of a request that it was refused: the action and the rule
// stay what was decided before, where the refusal has none of its own.
func (r *Refusal) Note(rec *audit.Record) {
	if r.Action != "" {
		rec.Action = r.Action
	} else if rec.Action == "" {
		rec.Action = audit.ActionDeny
	}
	if r.Rule != "" {
		rec.RuleID = r.Rule
	}
	rec.ErrorKind = r.Kind
}

// Reply is what the answer to a request has beside its refusal.
type Reply struct {
	// ID is the id of the request, nil for null; see [Refusal.ID].
	ID        []byte
	RequestID string
	// Executed is set once the upstream has begun to answer: a client whose answer
	// cannot be recorded is told so.
	Executed bool
	// ToolErrors is set for a tools/call whose denial is a result that the model reads
	// (policy.deny_as: tool_error), and Stateless for clients of 2026-07-28.
	ToolErrors, Stateless bool
}

// isToolError reports whether the answer is a result: the denials are, and nothing that
// says that the caller or the gateway has a problem.
func (r *Refusal) isToolError(a *Reply) bool {
	return a.ToolErrors && r.Code == mcp.CodePolicyDenied
}

// For returns the refusal as it is shown to the client: the audit line keeps its status.
func (r *Refusal) For(a *Reply) *Refusal {
	if !r.isToolError(a) {
		return r
	}
	shown := *r
	shown.Status = http.StatusOK
	return &shown
}

// appendToolError appends the result in the place of a denial.
func (r *Refusal) appendToolError(dst []byte, a *Reply) []byte {
	detail := r.Detail
	if detail == "" {
		detail = "a policy of the gateway does not allow this call"
	}
	text := r.Message + ": " + detail
	if a.Executed {
		text += ". The tool has run: its answer is withheld"
	}
	return mcp.AppendToolError(dst, a.ID, text+" (request "+a.RequestID+")", a.Stateless)
}

func (r *Refusal) error(a *Reply) mcp.ErrorBody {
	return mcp.ErrorBody{
		ID: a.ID, Code: r.Code, Message: r.Message,
		Reason: r.Reason, RequestID: a.RequestID,
		Supported: r.Versions, Requested: r.Requested, Detail: r.Detail,
		Executed: a.Executed && r.Kind == Audit.Kind,
	}
}

// AppendBody appends the body of the answer. Every answer to a request is JSON and
// carries the request's own id byte for byte: plain text or a null id in its place ends
// the session of some clients.
func (r *Refusal) AppendBody(dst []byte, a *Reply) []byte {
	if r.isToolError(a) {
		return r.appendToolError(dst, a)
	}
	body := r.error(a)
	return mcp.AppendErrorBody(dst, &body)
}

// AppendEvent appends the event that takes the place of the answer on a stream.
func (r *Refusal) AppendEvent(dst []byte, a *Reply) []byte {
	if r.isToolError(a) {
		return append(r.appendToolError(append(dst, "event: message\ndata: "...), a), "\n\n"...)
	}
	body := r.error(a)
	return mcp.AppendErrorEvent(dst, &body)
}

// Write sends the answer with a body of AppendBody.
func (r *Refusal) Write(w http.ResponseWriter, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	if r.RetryAfter > 0 || r.Status == http.StatusTooManyRequests {
		h["Retry-After"] = []string{strconv.Itoa(max(1, int((r.RetryAfter+time.Second-1)/time.Second)))}
	}
	if r.Challenge != "" {
		h["Www-Authenticate"] = []string{r.Challenge}
	}
	if r.Allow != "" {
		h["Allow"] = []string{r.Allow}
	}
	w.WriteHeader(r.Status)
	w.Write(body)
}

// ID returns the id that the refusal of a message carries: that of the message, an
// empty string for one that has none (see mcp.EmptyID), null where no message is
// expected.
func (r *Refusal) ID(m *mcp.Message, method string) []byte {
	if r.NullID {
		return nil
	}
	return AnswerID(m, method)
}

// AnswerID returns the id that an error in the place of an answer to m carries, by the
// method of the HTTP request that m came with.
func AnswerID(m *mcp.Message, method string) []byte {
	switch {
	case method != http.MethodPost:
		return nil
	case m.Kind == mcp.Notification || m.Kind == mcp.Response:
		return []byte(mcp.EmptyID)
	}
	return m.ID
}

// AtShutdown returns the refusal of a request that was cut by a stop of the process, in
// the place of what failed because of it: whatever waited for an upstream, a guardrail,
// a store or the rest of the body has ended with an error.
func (r *Refusal) AtShutdown() *Refusal {
	switch r.Kind {
	case Audit.Kind:
		return r
	case RateStore.Kind, SlowBody.Kind, Unreadable.Kind:
		return &Shutdown
	}
	if r.Status >= http.StatusInternalServerError {
		return &Shutdown
	}
	return r
}

// Unidentified reports whether the refusal is one of callers who were not identified:
// anybody can cause as many as the network carries. It is not where a token was good,
// or where the caller has done nothing.
func (r *Refusal) Unidentified() bool {
	switch r.Kind {
	case Scope.Kind, Panic.Kind, Audit.Kind:
		return false
	}
	return true
}

// CloseAfter makes the server close the connection after the answer.
func CloseAfter(w http.ResponseWriter) {
	w.Header()["Connection"] = []string{"close"}
}

// WriteNotFound answers a request for a path that the gateway does not serve.
func WriteNotFound(w http.ResponseWriter) {
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte(`{"error":"not found: the gateway serves /mcp, /healthz and /readyz"}` + "\n"))
}
