package gateway

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"svc/gateway/answers"
	"svc/gateway/audit"
	"svc/gateway/failures"
	"svc/gateway/headers"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/relay"
	"svc/gateway/transport"
	"svc/gateway/upstream"
	"svc/gateway/verdict"
)

// forward sends the message that was judged, byte for byte, and relays what
// comes back.
func (ex *exchange) forward() *refusal.Refusal {
	if ex.g.audit.Ready() != nil {
		return &refusal.Audit // what cannot be recorded is not done
	}
	if err := ex.session.Find(ex.ctx, ex.up); err != nil {
		return ex.refuseUpstream(err)
	}
	if ex.msg.Method == mcp.MethodListen {
		defer ex.endsAtStop()()
	}
	if ex.session.Track(ex.ctx, ex.up) {
		defer func() {
			if !ex.unanswered && ex.ctx.Err() == nil {
				ex.session.Untrack(ex.ctx)
			}
		}()
	}
	if ex.session.Joined {
		ex.g.sessions.FanOut(ex.ctx, ex.session.Client(), &ex.msg, ex.up)
	}
	ex.sentUp = ex.now()
	resp, err := ex.session.Send(ex.ctx, ex.up, func(bool) (*upstream.Response, error) { return ex.post() })
	if err != nil {
		return ex.refuseUpstream(err)
	}
	defer resp.Body.Close()
	ex.executed, ex.rec.UpstreamDialect = true, resp.Dialect
	return ex.relay(resp)
}

// answerSearch answers what the tool search takes over. It comes after all that judges
// a request, and what it answers is judged like the answer of an upstream, whose texts
// it holds.
func (ex *exchange) answerSearch() *refusal.Refusal {
	if ex.g.audit.Ready() != nil {
		return &refusal.Audit
	}
	if ex.msg.Kind != mcp.Request { // nobody waits for an answer
		return ex.acknowledge(&upstream.Response{Status: http.StatusAccepted})
	}
	body, refused := ex.g.search.Answer(ex.ctx, &ex.msg, ex.dialect.Modern, func(tool string) bool {
		return ex.live.verdict.MayAsk(&ex.who.Principal, ex.governed.set, mcp.MethodToolsCall, tool)
	})
	if refused != nil {
		return refused
	}
	return ex.relayJSON(&upstream.Response{
		Status: http.StatusOK, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	})
}

// post sends the message to the upstream.
func (ex *exchange) post() (*upstream.Response, error) {
	req := &ex.outgoing
	*req = transport.Request{
		Session: ex.session.SessionAt(ex.session.There), Caller: ex.session.Client().Caller, RequestID: ex.rec.RequestID,
		Header: ex.appendHeader(ex.fields[:0]),
		Body:   ex.found.Rename(ex.msg.Body),
	}
	if ex.msg.Method == mcp.MethodListen {
		// A listen stream is silent by nature: subscriptions.idle_timeout
		// judges it, not the upstream time-out.
		req.Timeouts = &upstream.Timeouts{FirstByte: ex.live.cfg.Subscriptions.IdleTimeout}
	}
	resp, err := ex.up.Transport.Post(ex.ctx, req)
	ex.fields = req.Header
	return resp, err
}

// refuseUpstream turns a failed exchange with an upstream into its answer.
func (ex *exchange) refuseUpstream(err error) *refusal.Refusal {
	o := relay.OfError(err, ex.ctx.Err() != nil)
	if o.Cause.Code != "" {
		ex.g.failures.Report(ex.failureOf(ex.up, o.Cause))
	}
	return o.Refused
}

// relay passes the upstream's answer on by its kind.
func (ex *exchange) relay(resp *upstream.Response) *refusal.Refusal {
	o := relay.OfResponse(resp, ex.relayRequest())
	switch o.Kind {
	case relay.Stream:
		return ex.relayStream(resp)
	case relay.Message:
		return ex.relayJSON(resp)
	}
	return ex.relayWithout(resp, &o, nil)
}

// relayRequest is what the upstream was asked.
func (ex *exchange) relayRequest() relay.Request {
	return relay.Request{Awaited: ex.msg.Kind == mcp.Request || ex.r.Method == http.MethodGet, InSession: ex.session.Joined}
}

// relayWithout acknowledges an answer without a message, or refuses one that is not
// passed on, and reports that one. read is what was read of its body, nil when nothing
// was.
func (ex *exchange) relayWithout(resp *upstream.Response, o *relay.Outcome, read []byte) *refusal.Refusal {
	if o.Kind == relay.Acknowledge {
		return ex.acknowledge(resp)
	}
	if o.Cause.Code == "" {
		return o.Refused
	}
	fail := ex.failureOf(ex.up, o.Cause)
	fail.Status = resp.Status
	if ex.g.failures.First(fail) {
		fail.Body = o.Excerpt(resp, read)
		ex.g.failures.Write(fail)
	}
	return o.Refused
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
	m, expected := &ex.reply, ex.answers()
	replaced, err := mcp.ScanReplacing(body, m)
	o := relay.OfMessage(resp, ex.relayRequest(), body, m, err, ex.msg.Kind != mcp.Request || expected.IsAnswer(m))
	if o.Kind != relay.Message {
		return ex.relayWithout(resp, &o, body)
	}
	ex.rec.ReplacedSurrogates += replaced
	t := expected.Whole(answers.Moment{Snapshot: &ex.live.verdict, Host: answerHost{ex}, Upstream: ex.up}, m, resp.Status)
	ex.noteGoverned(&t.Result)
	ex.noteAnswer(&t.Result, m)
	if t.Refused != nil {
		return t.Refused
	}
	if err := ex.account(resp.Status, len(t.Body)); err != nil {
		return &refusal.Audit
	}
	ex.copyHeader(resp.Header)
	h := ex.w.Header()
	h["Content-Type"] = typeJSON
	h["Content-Length"] = []string{strconv.Itoa(len(t.Body))}
	ex.w.WriteHeader(resp.Status)
	ex.w.Write(t.Body)
	return nil
}

// acknowledge answers a notification or a client's response with the
// upstream's status and no body.
func (ex *exchange) acknowledge(resp *upstream.Response) *refusal.Refusal {
	if err := ex.account(resp.Status, 0); err != nil {
		return &refusal.Audit
	}
	ex.copyHeader(resp.Header)
	ex.w.WriteHeader(resp.Status)
	return nil
}

// failureOf describes a failure of an upstream during this request.
func (ex *exchange) failureOf(t *transport.Upstream, cause upstream.Cause) *failures.Failure {
	return &failures.Failure{
		Upstream: t.Name, URL: t.Transport.Address(), Code: cause.Code, Cause: cause.Text, RequestID: ex.rec.RequestID,
	}
}

// appendHeader appends the header of the request for an upstream to h, which must be
// empty, without what the transport adds for the session.
func (ex *exchange) appendHeader(h upstream.Header) upstream.Header {
	r := headers.Request{
		From: ex.r.Header, Message: &ex.msg, OwnName: ex.found.Own, Hops: ex.session.Hops, Forward: ex.live.forwardHeaders, Rewriter: headerRewriter{ex},
	}
	return r.Append(h)
}

// headerRewriter changes header fields on their way to the upstream.
type headerRewriter struct{ ex *exchange }

func (h headerRewriter) Trace(to upstream.Header) upstream.Header {
	h.ex.passTrace(&to)
	return to
}

func (h headerRewriter) Param(value string) (string, bool) {
	ex := h.ex
	p := verdict.Params{
		Message: &ex.msg, Rule: ex.decision.Rule, Redacted: ex.rec.Action == audit.ActionRedact, ByArguments: ex.decision.ByArguments,
		Policies: ex.governed.set, Fired: ex.governed.fired, Changed: ex.governed.changed,
	}
	return p.Rewrite(value)
}

// copyHeader takes over what may pass from the upstream's answer.
func (ex *exchange) copyHeader(from upstream.Header) {
	to := ex.w.Header()
	headers.CopyResponse(to, from, ex.live.forwardHeaders)
	if sid := ex.session.Issue(ex.ctx, from.Get(mcp.HeaderSession), ex.up); sid != "" {
		to[mcp.HeaderSession] = []string{sid}
	}
}
