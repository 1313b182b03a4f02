package gateway

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"

	"svc/gateway/audit"
	"svc/gateway/govern"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// judgement is what the rules say of one message that an upstream sent.
type judgement struct {
	// refused is set when the message must not go on.
	refused *refusal.Refusal
	action  string // audit action; empty when no rule matched
	rule    string
	// performed is set when the rule did more than let the message pass: its
	// rate_limit, guardrail or strip_app was performed.
	performed bool
	kind      string // error_kind
	// stripApplied is set when strip_app was applied; stripped counts the content
	// blocks that it removed.
	stripApplied bool
	stripped     int
	// task is the handle of the task that the upstream made, as it sent it.
	task string
	// replaced counts the lone surrogates that were replaced in a frame.
	replaced int
	guarded
	verdict govern.Verdict // of the policies of the control plane
	// observed is what rules that are not enforced would have done.
	observed []audit.Observed
}

// judge evaluates the server_to_client rules on one message, whether it came
// as a frame or as a plain JSON answer: an upstream must not dodge a rule by
// its choice of content type. default_action never judges this direction.
//
// The strip_app of a rule that matched the request is performed here too. m is
// what goes on: when a rule changes the message, m is the changed one. src is the
// stream that a frame came on, nil for a plain answer.
func (ex *exchange) judge(l *live, m *mcp.Message, src *source) judgement {
	q := policy.RequestOf(m, policy.ServerToClient, ex.who.Claims)
	d, observed := l.decisions.Observe(&q)
	j := judgement{rule: d.RuleID, observed: ex.observed(nil, observed)}
	if d.RuleID != "" || len(j.observed) > 0 {
		j.action = audit.ActionAllow
	}
	if handle, ok := ex.taskMade(m); ok {
		j.task = handle
	}
	strip, presented := ex.strips(l, m), false
	switch d.Action {
	case policy.Allow:
	case policy.Redact:
		// Lists are filtered by the names that the upstream sent.
		if ex.present(l, m, &j); j.refused != nil {
			return j
		}
		j.action, presented = audit.ActionRedact, true
		var redacted mcp.Message
		if err := d.Rule.Redact(policy.ServerToClient, m, &redacted); err != nil {
			j.refused, j.action, j.kind = refusal.Redact.WithRule(d.RuleID), audit.ActionDeny, refusal.Redact.Kind
			return j
		}
		*m = redacted
	case policy.RateLimit:
		if src != nil {
			src.settle() // the limit may be asked of a store
		}
		if refused := ex.limit(d.Rule); refused != nil {
			j.refused, j.action, j.kind = refused, audit.ActionRateLimitBlocked, refused.Kind
			return j
		}
		j.performed = true
	case policy.StripApp:
		strip = true
	case policy.Guardrail:
		if ex.guardAnswer(l, d.Rule, m, src, &j); j.refused != nil {
			return j
		}
	default: // deny, and whatever this build cannot perform on an answer
		j.refused, j.action = refusal.Policy.WithRule(d.RuleID), audit.ActionDeny
		return j
	}
	if strip && (ex.deferred(m) || m.Kind == mcp.Response && (ex.msg.Method == mcp.MethodToolsCall || ex.r.Method == http.MethodGet)) {
		ex.strip(m, &j)
		j.performed = j.performed || d.Action == policy.StripApp
	}
	if !presented {
		ex.present(l, m, &j)
	}
	return j
}

// strips reports whether strip_app applies to a message because of the request
// that it answers. On a resumed stream, and for what a task ended with, nobody
// knows which that was: there it applies as soon as there is such a rule, or a
// client would get by breaking off, or by asking for a task, what it does not get
// at once.
func (ex *exchange) strips(l *live, m *mcp.Message) bool {
	if l.strips && (ex.r.Method == http.MethodGet && m.Kind == mcp.Response || ex.deferred(m)) {
		return true
	}
	return ex.decision.Action == policy.StripApp
}

// deferred reports whether a message holds what a tool answered to a call of
// which it made a task. Nobody knows which tool that was.
func (ex *exchange) deferred(m *mcp.Message) bool {
	switch {
	case m.Kind == mcp.Response && ex.msg.Method == mcp.MethodTasksResult:
		return true
	case m.Kind == mcp.Response && ex.msg.Method == mcp.MethodTasksGet, m.Method == mcp.NotificationTasks:
		return mcp.HasOutcome(m)
	}
	return false
}

// answeredBy reports whether m is the answer to the request. One with an id of
// another is not; an error without an id is.
func (ex *exchange) answeredBy(m *mcp.Message) bool {
	if m.Kind != mcp.Response || ex.msg.Kind != mcp.Request || ex.r.Method != http.MethodPost {
		return false
	}
	return len(m.ID) == 0 || mcp.SameID(m.ID, ex.msg.ID)
}

// strip removes interactive-app content from the answer to a tools/call, and from
// the one that a task ended with.
func (ex *exchange) strip(m *mcp.Message, j *judgement) {
	body, n, ok := mcp.StripApp(m, ex.dialect.Modern)
	if takeStripped(m, j, body, n, ok); j.refused == nil && ex.deferred(m) {
		body, n, ok := mcp.StripOutcome(m)
		takeStripped(m, j, body, n, ok)
	}
}

// takeStripped makes a message the one without n blocks, or keeps one that could be
// read in two ways from the client.
func takeStripped(m *mcp.Message, j *judgement, body []byte, n int, ok bool) {
	if !ok {
		j.refused, j.action, j.kind = &refusal.UpstreamInvalid, audit.ActionDeny, refusal.UpstreamInvalid.Kind
		return
	}
	j.stripApplied = true
	if n == 0 {
		return
	}
	j.stripped += n
	if err := mcp.Scan(body, m); err != nil { // a splice of ours: cannot happen
		j.refused, j.action, j.kind = &refusal.UpstreamInvalid, audit.ActionDeny, refusal.UpstreamInvalid.Kind
		return
	}
	if j.action == "" || j.action == audit.ActionAllow {
		j.action = audit.ActionStripApp
	}
}

// typeJSON is the Content-Type of nearly all answers. Nobody changes it.
var typeJSON = []string{"application/json"}

// relayJSON inspects a plain JSON answer and passes it on.
func (ex *exchange) relayJSON(resp *upstream.Response) *refusal.Refusal {
	ex.countBytes(&ex.bytes)
	body, err := resp.ReadAll(ex.answer[:0], &ex.bytes)
	ex.answer = body
	if err != nil {
		return ex.refuseUpstream(err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return ex.relayOther(resp, body)
	}
	var m mcp.Message
	replaced, err := mcp.ScanReplacing(body, &m)
	if err != nil || m.Kind != mcp.Response {
		if resp.Status >= 400 && resp.Status < 500 {
			return ex.relayOther(resp, body)
		}
		return ex.refuseResponse(&refusal.UpstreamInvalid, resp, body, invalidMessage(err))
	}
	if resp.Status < 400 && ex.msg.Kind == mcp.Request && !ex.answeredBy(&m) {
		return ex.refuseResponse(&refusal.UpstreamInvalid, resp, body, upstream.Cause{
			Code: "foreign_id", Text: "answered with the id of another request",
		})
	}
	ex.rec.ReplacedSurrogates += replaced
	j := ex.judge(ex.live, &m, nil)
	ex.grade(&m)
	ex.governAnswer(&m, nil, &j)
	ex.note(&j, &m)
	if j.refused != nil {
		return j.refused
	}
	ex.learnTask(&j, ex.up)
	out := ex.offered(&m)
	if ex.msg.Kind == mcp.Request || resp.Status >= 400 {
		out = ex.ownID(&m, out)
	}
	if err := ex.account(resp.Status, len(out)); err != nil {
		return &refusal.Audit
	}
	ex.copyHeader(resp.Header)
	h := ex.w.Header()
	h["Content-Type"] = typeJSON
	h["Content-Length"] = []string{strconv.Itoa(len(out))}
	ex.w.WriteHeader(resp.Status)
	ex.w.Write(out)
	return nil
}

// note copies what the rules decided about the answer into the request's record.
func (ex *exchange) note(j *judgement, m *mcp.Message) {
	ex.noteRule(j)
	if j.kind != "" {
		ex.rec.ErrorKind = j.kind
	}
	if denial(&j.verdict) != "" {
		ex.rec.RuleID = "" // it was no rule
	}
	for _, o := range j.observed { // a rule for both ways has seen the request already
		if !slices.Contains(ex.rec.Observed, o) {
			ex.rec.Observed = append(ex.rec.Observed, o)
		}
	}
	if j.stripApplied {
		ex.rec.StripApplied = true
		ex.rec.Stripped += j.stripped
	}
	ex.noteGuarded(j)
	if m.Kind == mcp.Response {
		ex.rec.IsError = m.IsError || m.ToolError
		ex.rec.ResultType = m.ResultType
		if j.task != "" {
			ex.rec.TaskHandle = j.task
		}
	}
}

// noteRule copies the action and the rule of the answer. An action other than allow
// takes precedence over that of the request. Where both were allowed, the rule of
// the answer is recorded if no rule decided on the request, or if the request's
// rule only allows and the answer's was performed, as a rate_limit that admits.
func (ex *exchange) noteRule(j *judgement) {
	if j.action == "" || j.rule == "" && j.action == audit.ActionAllow {
		return
	}
	if j.action != audit.ActionAllow {
		ex.rec.Action = j.action
	} else if ex.rec.RuleID != "" && (ex.rec.Action != audit.ActionAllow || ex.decision.Action != policy.Allow || !j.performed) {
		return
	}
	if j.rule != "" {
		ex.rec.RuleID = j.rule
	}
}

// ownID gives an answer the request's own id where the upstream left it null or
// out, or wrote one of its own into an error: some clients end their session
// otherwise. body is the message m as it goes on.
func (ex *exchange) ownID(m *mcp.Message, body []byte) []byte {
	id := ex.answerID(&refusal.Refusal{})
	if !m.IsError || len(id) == 0 || len(m.ID) > 0 && mcp.SameID(m.ID, id) {
		return body
	}
	if at := m.Spans.ID; at.Present() {
		return mcp.Splice(nil, body, mcp.Edit{At: at, With: id})
	}
	open := bytes.IndexByte(body, '{')
	insert := append(append([]byte(`{"id":`), id...), ',')
	return mcp.Splice(nil, body, mcp.Edit{At: mcp.Span{Start: open, End: open + 1}, With: insert})
}

// offered returns the body of an answer, with the revisions that
// server/discover offers cut down to the allowed ones: a client would choose
// one that its next request is refused for.
func (ex *exchange) offered(m *mcp.Message) []byte {
	if ex.msg.Method != mcp.MethodDiscover || m.Kind != mcp.Response {
		return m.Body
	}
	body, _ := ex.g.versions.FilterSupported(m)
	return body
}
