package refusal

import (
	"net/http"
	"strconv"

	"svc/gateway/audit"
	"svc/gateway/mcp"
)

// Note records in a request's audit line that it was refused. The action and the rule
// that were decided before stay, unless the refusal has its own.
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

// Reply is the data of an error response that does not depend on the refusal.
type Reply struct {
	// ID is the id of the request, nil for null; see [Refusal.ID].
	ID        []byte
	RequestID string
	// Executed is set once the upstream has begun to respond: a client whose response
	// cannot be recorded gets this information.
	Executed bool
	// ToolErrors is set for a tools/call whose denial is sent as a result that the model
	// reads (policy.deny_as: tool_error), and Stateless for clients of 2026-07-28.
	ToolErrors, Stateless bool
}

// isToolError reports whether the refusal is sent as a result: only denials are, not
// problems of the caller or the gateway.
func (r *Refusal) isToolError(a *Reply) bool {
	return a.ToolErrors && r.Code == mcp.CodePolicyDenied
}

// For returns the refusal in the form for the client: the audit line keeps the original
// status.
func (r *Refusal) For(a *Reply) *Refusal {
	if !r.isToolError(a) {
		return r
	}
	shown := *r
	shown.Status = http.StatusOK
	return &shown
}

// appendToolError appends the result that is sent instead of a denial.
func (r *Refusal) appendToolError(dst []byte, a *Reply) []byte {
	detail := r.Detail
	if detail == "" {
		detail = "a policy of the gateway does not allow this call"
	}
	text := r.Message + ": " + detail
	if r.Pointer != "" {
		text += " (" + r.Pointer + ")"
	}
	if a.Executed {
		text += ". The tool has run: its answer is withheld"
	}
	return mcp.AppendToolError(dst, a.ID, text+" (request "+a.RequestID+")", a.Stateless)
}

func (r *Refusal) error(a *Reply) mcp.ErrorBody {
	var more []byte
	if r.Pointer != "" {
		more = mcp.AppendString([]byte(`,"pointer":`), r.Pointer)
	}
	if r.Approval != nil {
		more = r.Approval.appendMembers(more)
	}
	return mcp.ErrorBody{
		More: more,
		ID:   a.ID, Code: r.Code, Message: r.Message,
		Reason: r.Reason, RequestID: a.RequestID,
		Supported: r.Versions, Requested: r.Requested, Detail: r.Detail,
		Executed: a.Executed && r.Kind == Audit.Kind,
	}
}

// AppendBody appends the body of the error response. Every response to a request is JSON
// and has the request's own id byte for byte: plain text or a null id ends the session
// in some clients.
func (r *Refusal) AppendBody(dst []byte, a *Reply) []byte {
	if r.isToolError(a) {
		return r.appendToolError(dst, a)
	}
	body := r.error(a)
	return mcp.AppendErrorBody(dst, &body)
}

// AppendEvent appends the error response as an event of a stream.
func (r *Refusal) AppendEvent(dst []byte, a *Reply) []byte {
	if r.isToolError(a) {
		return append(r.appendToolError(append(dst, "event: message\ndata: "...), a), "\n\n"...)
	}
	body := r.error(a)
	return mcp.AppendErrorEvent(dst, &body)
}

// Write sends an error response with a body of AppendBody.
func (r *Refusal) Write(w http.ResponseWriter, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	if r.RetryAfter > 0 || r.Status == http.StatusTooManyRequests {
		h["Retry-After"] = []string{strconv.Itoa(seconds(r.RetryAfter))}
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

// ID returns the id of the error response for a message: the id of the message, an empty
// string for a message without one (see mcp.EmptyID), null if no message was expected.
func (r *Refusal) ID(m *mcp.Message, method string) []byte {
	switch {
	case r.NullID:
		return nil
	case r.NoID:
		return []byte(mcp.EmptyID)
	}
	return AnswerID(m, method)
}

// AnswerID returns the id of an error that replaces the response to m, given the method
// of m's HTTP request.
func AnswerID(m *mcp.Message, method string) []byte {
	switch {
	case method != http.MethodPost:
		return nil
	case m.Kind == mcp.Notification || m.Kind == mcp.Response:
		return []byte(mcp.EmptyID)
	}
	return m.ID
}

// AtShutdown returns the refusal of a request that was aborted by the shutdown of the
// process. It replaces the refusal that the shutdown caused: waiting for an upstream, a
// guardrail, a store or the rest of the body has ended with an error.
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

// Unidentified reports whether the refusal applies to unidentified callers, who can
// cause any number of such refusals. It is false if a token was valid, or if the caller
// did not cause the refusal.
func (r *Refusal) Unidentified() bool {
	switch r.Kind {
	case Scope.Kind, Panic.Kind, Audit.Kind:
		return false
	}
	return true
}

// CloseAfter makes the server close the connection after the response.
func CloseAfter(w http.ResponseWriter) {
	w.Header()["Connection"] = []string{"close"}
}

// WriteNotFound responds to a request for a path that the gateway does not serve.
func WriteNotFound(w http.ResponseWriter) {
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte(`{"error":"not found: the gateway serves /mcp, /healthz and /readyz"}` + "\n"))
}
