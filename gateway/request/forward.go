package request

import (
	"net/http"
	"strconv"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/upstream"
)

// Forward sends the judged message, byte for byte, and relays the response.
func (ex *Exchange) Forward() *refusal.Refusal {
	if ex.Services.Audit.Ready() != nil {
		return &refusal.Audit // a request that cannot be recorded is not executed
	}
	err := ex.Session.Find(ex.Context, ex.route.Upstream)
	if err != nil {
		return ex.refuseUpstream(err)
	}
	if ex.Message.Method == mcp.MethodListen {
		defer ex.endsAtStop()()
	}
	if ex.Session.Track(ex.Context, ex.route.Upstream, ex.Live.Verdict.Rules.UsesLabels()) {
		defer func() {
			if !ex.unanswered && ex.Context.Err() == nil {
				ex.Session.Untrack(ex.Context)
			}
		}()
	}
	end := ex.pend()
	defer func() { end(err) }()
	if ex.Session.Joined {
		ex.Services.Sessions.FanOut(ex.Context, ex.Session.Client(), &ex.Message, ex.route.Upstream)
	}
	ex.times.sentUp = ex.now()
	var resp *upstream.Response
	resp, err = ex.Session.Send(ex.Context, ex.route.Upstream, func(bool) (*upstream.Response, error) { return post(ex) })
	if err != nil {
		return ex.refuseUpstream(ex.approval.notSent(ex.Services, err))
	}
	defer resp.Body.Close()
	if resp.Status < http.StatusInternalServerError {
		ex.Services.Lists.Reached(ex.route.Upstream.Name)
	}
	ex.noteResponse(resp)
	return relayAnswer(ex, resp)
}

// AnswerSearch answers a request for the tool search. The request has been judged before, and the
// answer is judged like that of an upstream, because it contains texts of upstreams.
func (ex *Exchange) AnswerSearch() *refusal.Refusal {
	if ex.Services.Audit.Ready() != nil {
		return &refusal.Audit
	}
	if ex.Message.Kind != mcp.Request { // a notification has no response
		return acknowledge(ex, upstream.Empty(http.StatusAccepted))
	}
	if ex.absent != nil {
		return refusal.OfMessage(ex.absent)
	}
	if len(ex.asks) > 0 {
		if refused := ex.approve(ex.Services.SearchUpstream()); refused != nil {
			return refused
		}
		if err := ex.approval.beforeSend(ex.Context); err != nil {
			return ex.refuseUpstream(ex.approval.notSent(ex.Services, err))
		}
	}
	body, refused := ex.Services.Search.Answer(ex.Context, ex.Session.Client().Caller, &ex.Message, ex.dialect.Version, func(upstream, tool string) bool {
		return ex.Session.View.Finds(upstream, tool) && ex.Live.Verdict.MayAsk(&ex.caller.id.Principal, ex.governed.set, upstream, mcp.Tool, tool)
	})
	if refused != nil {
		return refused
	}
	return relayJSON(ex, upstream.Message(http.StatusOK, body))
}

// post sends the message to the upstream.
func post(ex *Exchange) (*upstream.Response, error) {
	req := &ex.outgoing
	*req = upstream.Request{
		Session: ex.Session.SessionAt(ex.Session.There), Caller: ex.Session.Client().Caller, RequestID: ex.record.RequestID,
		Header: ex.appendHeader(ex.buffers.Fields[:0]),
		Body:   ex.route.As.Rename(ex.Message.Body),
		Absent: ex.absent,
	}
	if ex.approval != nil {
		req.BeforeSend = ex.approval.beforeSend
	}
	if ex.Message.Method == mcp.MethodListen {
		// A listen stream may be idle: subscriptions.idle_timeout applies instead of the upstream
		// time-out.
		req.Timeouts = &upstream.Timeouts{FirstByte: ex.Live.Config.Subscriptions.IdleTimeout}
	}
	resp, err := ex.route.Upstream.Transport.Post(ex.Context, req)
	ex.buffers.Fields = req.Header
	return resp, err
}

// relayAnswer relays the upstream's response according to its kind.
func relayAnswer(ex *Exchange, resp *upstream.Response) *refusal.Refusal {
	o := ofResponse(resp, relayRequest(ex))
	switch o.Kind {
	case RelayedStream:
		return relay(ex, resp)
	case Message:
		return relayJSON(ex, resp)
	}
	return relayWithout(ex, resp, &o, nil)
}

// relayRequest describes the request whose response is classified.
func relayRequest(ex *Exchange) Relayed {
	return Relayed{Awaited: ex.Message.Kind == mcp.Request || ex.HTTP.Method == http.MethodGet, InSession: ex.Session.InUpstreamSession()}
}

// relayWithout acknowledges a response without a message, or returns the refusal of one that is
// not forwarded and logs it. read is the part of its body that was read, nil for none.
func relayWithout(ex *Exchange, resp *upstream.Response, o *Outcome, read []byte) *refusal.Refusal {
	if o.Kind == Acknowledge {
		return acknowledge(ex, resp)
	}
	if o.Cause.Code == "" {
		return o.Refused
	}
	fail := ex.failureOf(ex.route.Upstream, o.Cause)
	fail.Status = resp.Status
	if ex.Services.Failures.First(fail) {
		fail.Body = o.Excerpt(resp, read)
		ex.Services.Failures.Write(fail)
	}
	return o.Refused
}

// typeJSON is the usual Content-Type of responses. It must not be changed.
var typeJSON = []string{"application/json"}

// relayJSON inspects a plain JSON response and forwards it.
func relayJSON(ex *Exchange, resp *upstream.Response) *refusal.Refusal {
	body, err := resp.ReadAll(ex.buffers.Answer[:0], ex.countBytes())
	ex.buffers.Answer = body
	if err != nil {
		return ex.refuseUpstream(err)
	}
	m, expected := &ex.reply, ex.answers()
	replaced, err := mcp.ScanAnswer(body, m)
	o := ofMessage(resp, relayRequest(ex), body, m, err, ex.Message.Kind != mcp.Request || expected.IsAnswer(m))
	if o.Kind != Message {
		return relayWithout(ex, resp, &o, body)
	}
	ex.record.ReplacedSurrogates += replaced
	ex.answered = true
	at := Moment{Snapshot: &ex.Live.Verdict, Host: answerHost{ex}, Upstream: ex.route.Upstream, Flow: ex.flow()}
	t := expected.Whole(at, m, resp, ex.noteAnswer)
	t.Sets |= expected.setsHeader(at.Flow, at.Upstream, resp.Header, ex.Live.ForwardHeaders)
	ex.label(at.Flow, at.Upstream, &t, m)
	ex.noteAnswer(&t.Result, m)
	if t.Refused != nil {
		return t.Refused
	}
	status := status(resp, ex.Message.Kind, ex.Session.OwnSession())
	if err := ex.account(status, len(t.Body)); err != nil {
		return &refusal.Audit
	}
	ex.copyHeader(resp)
	h := ex.Writer.Header()
	h["Content-Type"] = typeJSON
	h["Content-Length"] = []string{strconv.Itoa(len(t.Body))}
	ex.Writer.WriteHeader(status)
	ex.Writer.Write(t.Body)
	return nil
}

// acknowledge responds to a notification or a client's response with the upstream's status and no
// body.
func acknowledge(ex *Exchange, resp *upstream.Response) *refusal.Refusal {
	if refused := ex.labelHeader(resp.Header); refused != nil {
		return refused
	}
	if err := ex.account(resp.Status, 0); err != nil {
		return &refusal.Audit
	}
	ex.copyHeader(resp)
	ex.Writer.WriteHeader(resp.Status)
	return nil
}
