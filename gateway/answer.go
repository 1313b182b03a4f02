package gateway

import (
	"net/http"
	"strconv"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/relay"
	"svc/gateway/transport"
	"svc/gateway/upstream"
	"svc/gateway/verdict"
)

// answeredBy reports whether m is the answer to the request. One with an id of
// another is not; an error without an id is.
func (ex *exchange) answeredBy(m *mcp.Message) bool {
	if m.Kind != mcp.Response || ex.msg.Kind != mcp.Request || ex.r.Method != http.MethodPost {
		return false
	}
	return len(m.ID) == 0 || mcp.SameID(m.ID, ex.msg.ID)
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
	m := &ex.reply
	replaced, err := mcp.ScanReplacing(body, m)
	o := relay.OfMessage(resp, ex.relayRequest(), body, m, err, ex.msg.Kind != mcp.Request || ex.answeredBy(m))
	if o.Kind != relay.Message {
		return ex.relayWithout(resp, &o, body)
	}
	ex.rec.ReplacedSurrogates += replaced
	j := ex.judgeAnswer(m)
	if j.Refused != nil {
		return j.Refused
	}
	out := ex.passOn(&j, m, ex.up, ex.msg.Kind == mcp.Request || resp.Status >= 400)
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

// passOn returns the body of a message m of the upstream up that was judged and may
// go on. Where a task was made, its place is remembered before its caller can know of
// it; with one upstream there is nothing to remember. The revisions that
// server/discover offers are cut down to the allowed ones: a client would choose one
// that its next request is refused for. own is set for what answers the request.
func (ex *exchange) passOn(j *verdict.Result, m *mcp.Message, up *transport.Upstream, own bool) []byte {
	ex.g.sessions.LearnTask(ex.ctx, &ex.who.Principal, j.Task, up)
	body := m.Body
	if ex.msg.Method == mcp.MethodDiscover && m.Kind == mcp.Response {
		body, _ = ex.g.versions.FilterSupported(m)
	}
	if own {
		body = relay.OwnID(refusal.AnswerID(&ex.msg, ex.r.Method), m, body)
	}
	return body
}
