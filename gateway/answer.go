package gateway

import (
	"bytes"
	"net/http"
	"strconv"

	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/upstream"
)

// judgement is what the rules say of one message that an upstream sent.
type judgement struct {
	// refused is set when the message must not go on.
	refused *refusal
	action  string // audit action; empty when no rule matched
	rule    string
	kind    string // error_kind
	// stripped counts the content blocks that strip_app removed.
	stripped int
}

// judge evaluates the server_to_client rules on one message, whether it came
// as a frame or as a plain JSON answer: an upstream must not dodge a rule by
// its choice of content type. default_action never judges this direction.
//
// The strip_app of a rule that matched the request is performed here too. m is
// what goes on: when a rule changes the message, m is the changed one.
func (ex *exchange) judge(l *live, m *mcp.Message) judgement {
	q := policy.RequestOf(m, policy.ServerToClient, ex.who.Claims)
	d := l.decisions.decide(l.rules, &q)
	j := judgement{rule: d.RuleID}
	if d.RuleID != "" {
		j.action = actionAllow
	}
	strip := ex.decision.Action == policy.StripApp
	switch d.Action {
	case policy.Allow:
	case policy.Redact:
		j.action = actionRedact
		var redacted mcp.Message
		if err := d.Rule.Redact(m, &redacted); err != nil {
			j.refused, j.action, j.kind = refuseRedact.withRule(d.RuleID), actionDeny, refuseRedact.kind
			return j
		}
		*m = redacted
	case policy.RateLimit:
		if refused := ex.limit(d.Rule); refused != nil {
			j.refused, j.action, j.kind = refused, actionRateLimitBlocked, refused.kind
			return j
		}
	case policy.StripApp:
		strip = true
	default: // deny, and whatever this build cannot perform on an answer
		j.refused, j.action = refusePolicy.withRule(d.RuleID), actionDeny
		return j
	}
	if strip && m.Kind == mcp.Response && ex.msg.Method == mcp.MethodToolsCall {
		ex.strip(m, &j)
	}
	return j
}

// strip removes interactive-app content from the answer to a tools/call.
func (ex *exchange) strip(m *mcp.Message, j *judgement) {
	body, n := mcp.StripApp(m, ex.dialect.Modern)
	if n == 0 {
		return
	}
	j.stripped = n
	if err := mcp.Scan(body, m); err != nil { // a splice of ours: cannot happen
		j.refused, j.action, j.kind = &refuseUpstreamInvalid, actionDeny, refuseUpstreamInvalid.kind
		return
	}
	if j.action == "" || j.action == actionAllow {
		j.action = actionStripApp
	}
}

// relayJSON inspects a plain JSON answer and passes it on.
func (ex *exchange) relayJSON(resp *upstream.Response) *refusal {
	body, err := resp.ReadAll(ex.answer[:0])
	ex.answer = body
	if err != nil {
		return ex.refuseUpstream(err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return ex.relayOther(resp)
	}
	var m mcp.Message
	if err := mcp.Scan(body, &m); err != nil || m.Kind != mcp.Response {
		if resp.Status >= 400 && resp.Status < 500 {
			return ex.relayOther(resp)
		}
		return &refuseUpstreamInvalid
	}
	j := ex.judge(ex.live, &m)
	ex.note(&j, &m)
	if j.refused != nil {
		return j.refused
	}
	out := ex.offered(&m)
	if resp.Status >= 400 && len(m.ID) == 0 {
		out = ex.ownID(&m)
	}
	if err := ex.account(resp.Status, len(out)); err != nil {
		return &refuseAudit
	}
	ex.copyHeader(resp.Header)
	h := ex.w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(out))}
	ex.w.WriteHeader(resp.Status)
	if ex.r.Method != http.MethodHead {
		ex.w.Write(out)
	}
	return nil
}

// note carries what the rules said of the answer into the request's record:
// the stronger decision stands.
func (ex *exchange) note(j *judgement, m *mcp.Message) {
	if j.action != "" && j.action != actionAllow {
		ex.rec.Action = j.action
		if j.rule != "" {
			ex.rec.RuleID = j.rule
		}
	}
	ex.stripped += j.stripped
	if m.Kind == mcp.Response {
		ex.rec.IsError = m.IsError || m.ToolError
		ex.rec.ResultType = m.ResultType
		if m.ResultType == mcp.ResultTask {
			ex.rec.TaskHandle = m.TaskID
		}
	}
}

// ownID gives an error answer the request's own id where the upstream left it
// null or out: some clients end their session otherwise.
func (ex *exchange) ownID(m *mcp.Message) []byte {
	id := ex.answerID(&refusal{})
	if len(id) == 0 {
		return m.Body
	}
	if at := m.Spans.ID; at.Present() {
		return mcp.Splice(nil, m.Body, mcp.Edit{At: at, With: id})
	}
	open := bytes.IndexByte(m.Body, '{')
	insert := append(append([]byte(`{"id":`), id...), ',')
	return mcp.Splice(nil, m.Body, mcp.Edit{At: mcp.Span{Start: open, End: open + 1}, With: insert})
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
