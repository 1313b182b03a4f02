package translate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// questionName is the key of the only question of a result.
const questionName = "question"

// hold keeps the call open at the upstream, and returns the result with the question. If
// the call cannot be held, it is canceled, and the client gets an error. The standalone
// stream is closed meanwhile because it uses a connection, unless the question came on
// it, where more may follow.
func (c *callToLegacy) hold(beside bool) []byte {
	want, err := digestOf(c.principal, c.t.opts.Upstream.Name, &c.message)
	if err != nil {
		c.finish(cancelled)
		return c.failed("its arguments have no canonical form", wasCancelled)
	}
	if !c.t.pool.setApart(c.principal) {
		c.finish(cancelled)
		return c.failed(errHeld.Error(), wasCancelled)
	}
	c.mu.Lock()
	if c.state != running || !c.detach() { // the client has disconnected
		c.mu.Unlock()
		c.t.pool.resume(c.principal)
		return nil
	}
	c.state = waiting
	c.mu.Unlock()
	refused := c.refused
	c.before, c.refused = nil, Refusing{} // these refer to the response to the client's request
	question := asClientGets(&c.question)
	name, err := c.t.held.add(c, question, func() { c.finish(cancelled) })
	if err != nil {
		c.refused = refused
		c.finish(cancelled)
		return c.failed(err.Error(), wasCancelled)
	}
	if !beside {
		c.conn.stopListening()
	}
	return ask(question, c.id, c.t.seal.seal(state{Digest: want, Held: name, Expires: c.t.opts.Now().Add(answerTime).Unix()}))
}

// asClientGets converts a question of an upstream to 2026-07-28.
func asClientGets(q *mcp.Message) []byte {
	return objectOf(
		mcp.Member{Name: "method", Value: mcp.AppendString(nil, q.Method)},
		mcp.Member{Name: "params", Value: q.Spans.Params.Of(q.Body)})
}

// ask returns the result with a question, also when a retry lacks the answer.
func ask(question, id []byte, state string) []byte {
	return appendResult(nil, id, inputRequired([]mcp.Member{{Name: questionName, Value: question}}, state))
}

// inputRequired returns the result with questions and the requestState of their call.
func inputRequired(questions []mcp.Member, state string) []byte {
	return objectOf(
		mcp.Member{Name: "resultType", Value: []byte(`"` + mcp.ResultInputRequired + `"`)},
		mcp.Member{Name: "inputRequests", Value: objectOf(questions...)},
		mcp.Member{Name: "requestState", Value: mcp.AppendString(nil, state)})
}

// What is known about the execution of a call.
const (
	wasCancelled = "The gateway has cancelled it. What it did before that may have had effects"
	isUnknown    = "Whether it was completed is not known: it may have had effects, in part or in full"
)

// failed is the response of a call that cannot continue, and what is known about its
// execution.
func (c *callToLegacy) failed(why, became string) []byte {
	c.refused.Refuse(&refusal.InputFailed, why)
	return failed(c.message.Method, c.id, c.requestID, why, became)
}

// failed returns the error response after a question.
func failed(method string, id []byte, requestID, why, became string) []byte {
	text := "The call could not be completed after a question of the upstream: " + why + ". " + became + " (request " + requestID + ")."
	if method == mcp.MethodToolsCall {
		return mcp.AppendToolError(nil, id, text, true)
	}
	return mcp.AppendError(nil, id, refusal.InputFailed.Code, refusal.InputFailed.Message+": "+text, refusal.InputFailed.Reason, requestID)
}

// errGone is the error of an answer whose call no longer exists.
var errGone = errors.New("the call no longer waits for this answer: it was answered before, its time has passed, or the gateway was restarted")

// gone responds to a retry whose call no longer exists.
func gone(m *mcp.Message, requestID string) *upstream.Response {
	return refused(http.StatusOK, failed(m.Method, m.ID, requestID, errGone.Error(), isUnknown), &refusal.InputFailed, errGone.Error())
}

// retry takes the answers to a question, and continues its call.
func (t *ToLegacy) retry(ctx context.Context, r *upstream.Request, m *mcp.Message, s *sender) (*upstream.Response, error) {
	refuse := func(err error) (*upstream.Response, error) {
		resp := Refuse(&refusal.RequestState, 0, m.ID, notForThis, r.RequestID)
		resp.Refused.Cause = err.Error()
		return resp, nil
	}
	text, ok := mcp.StringValue(mcp.Find(m.Body, m.Spans.Params, "requestState").Of(m.Body))
	if !ok {
		return Refuse(&refusal.RequestState, 0, m.ID, "requestState is not a string", r.RequestID), nil
	}
	want, err := digestOf(s.principal, t.opts.Upstream.Name, m)
	if err != nil {
		return refuse(err)
	}
	st, err := t.seal.open(text, want)
	if err != nil {
		return refuse(err)
	}
	if st.Held == "" && !st.expired(t.opts.Now()) { // the answer is not needed: the call begins again
		if !t.visits.use(&st, t.opts.Now()) {
			return refuse(errUsed)
		}
		return t.call(ctx, r, m, s)
	}
	answer := mcp.Find(m.Body, mcp.Find(m.Body, m.Spans.Params, "inputResponses"), questionName)
	if !answer.Present() || m.Body[answer.Start] != '{' {
		answer = mcp.Span{}
	}
	if st.Instance != t.opts.Replicas.Instance() && !st.expired(t.opts.Now()) {
		return t.handOver(ctx, r, m, &st, text, answer.Of(m.Body))
	}
	waiting := t.held.peek(st.Held)
	if waiting == nil || st.expired(t.opts.Now()) {
		return gone(m, r.RequestID), nil
	}
	if !answer.Present() {
		return upstream.Message(http.StatusOK, ask(waiting, m.ID, text)), nil
	}
	c := t.held.take(st.Held)
	if c == nil { // another retry was first
		return gone(m, r.RequestID), nil
	}
	c.goOn(ctx, r.RequestID, m.ID, answer.Of(m.Body))
	return upstream.Events(c.turn(nil)), nil
}

// Abandon cancels a held call whose question the client did not get, given the
// requestState of the result.
func (t *ToLegacy) Abandon(text string) {
	if st, ok := t.seal.read(text); ok && st.Held != "" {
		if c := t.held.take(st.Held); c != nil {
			c.finish(cancelled)
		}
	}
}

// goOn attaches a request of the client to the call, and sends the answer to the
// upstream.
func (c *callToLegacy) goOn(ctx context.Context, requestID string, id, answer []byte) {
	c.id, c.requestID = slices.Clone(id), requestID
	c.mu.Lock()
	c.state, c.rejected = running, rejection{}
	c.turns++
	c.detach = context.AfterFunc(ctx, c.cancel)
	c.mu.Unlock()
	c.t.pool.resume(c.principal)
	if c.beside != nil && c.conn.beside.hasEnded() {
		c.listenBeside()
	}
	c.respond(appendResult(nil, c.question.ID, answer))
}

// translate converts the response of an upstream to 2026-07-28, with its status.
func (c *callToLegacy) translate(m *mcp.Message) (status int, body []byte) {
	if m.IsError {
		return c.translateError(m)
	}
	add := completeMembers[:1]
	if cacheable(c.message.Method) {
		add = completeMembers[:]
	}
	out := appendStart(make([]byte, 0, len(m.Body)+len(c.id)+128), c.id, "result")
	return http.StatusOK, append(mcp.AppendObject(out, m.Body, m.Spans.Result, nil, add...), '}')
}

// completeMembers are the members that 2026-07-28 requires of a result; all results need
// the first, cacheable ones also the others. They are never modified.
var completeMembers = [...]mcp.Member{
	{Name: "resultType", Value: []byte(`"` + mcp.ResultComplete + `"`)},
	{Name: "ttlMs", Value: []byte("0")},
	{Name: "cacheScope", Value: []byte(`"private"`)},
}

// cacheable reports whether the result of a method has cache hints.
func cacheable(method string) bool {
	return method == mcp.MethodResourcesRead || method == mcp.MethodSkillsGet || mcp.MethodOf(method).List != "" && method != mcp.MethodDirectoryRead
}

// translateError returns an error with the code and the status of 2026-07-28.
func (c *callToLegacy) translateError(m *mcp.Message) (status int, body []byte) {
	var add []mcp.Member
	status = http.StatusOK
	switch {
	case m.ErrorCode == codeResourceNotFound && c.message.Method == mcp.MethodResourcesRead:
		add = []mcp.Member{{Name: "code", Value: []byte("-32602")}}
	case m.ErrorCode == mcp.CodeMethodNotFound:
		status = http.StatusNotFound
	case m.ErrorCode == mcp.CodeMissingCapability:
		status = http.StatusBadRequest
	case m.ErrorCode == mcp.CodeURLElicitation && mayAsk(c.message.Method) && c.declares(mcp.MethodElicit):
		if body := c.visit(m); body != nil {
			return status, body
		}
	}
	return status, append(mcp.AppendObject(appendStart(nil, c.id, "error"), m.Body, m.Spans.Error, nil, add...), '}')
}

// visit converts an error that asks the user to visit addresses into questions: nil when
// it names none. The call has ended; the retry is a new call.
func (c *callToLegacy) visit(m *mcp.Message) []byte {
	want, err := digestOf(c.principal, c.t.opts.Upstream.Name, &c.message)
	list := mcp.Find(m.Body, mcp.Find(m.Body, m.Spans.Error, "data"), "elicitations")
	if err != nil || !list.Present() || m.Body[list.Start] != '[' {
		return nil
	}
	var questions []mcp.Member
	for it := mcp.Elements(m.Body, list); it.Next() && len(questions) < maxInOneResult; {
		params := it.Value().Of(m.Body)
		if !json.Valid(params) || params[0] != '{' {
			return nil
		}
		questions = append(questions, mcp.Member{
			Name: questionName + string(rune('A'+len(questions)%26)) + string(rune('a'+len(questions)/26)),
			Value: objectOf(
				mcp.Member{Name: "method", Value: []byte(`"` + mcp.MethodElicit + `"`)},
				mcp.Member{Name: "params", Value: params}),
		})
	}
	if len(questions) == 0 {
		return nil
	}
	text := c.t.seal.seal(state{Digest: want, Visit: rand.Text(), Expires: c.t.opts.Now().Add(answerTime).Unix()})
	return appendResult(nil, c.id, inputRequired(questions, text))
}
