// Package forwarding sends a judged request to its upstream and relays the response: a message,
// an event stream, an acknowledgement, or a refusal.
package forwarding

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"svc/gateway/answers"
	"svc/gateway/exchange"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/relay"
	"svc/gateway/streaming"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// Forward sends the judged message, byte for byte, and relays the response.
func Forward(ex *exchange.Exchange) *refusal.Refusal {
	if ex.Services.Audit.Ready() != nil {
		return &refusal.Audit // a request that cannot be recorded is not executed
	}
	if err := ex.Session.Find(ex.Context, ex.Upstream); err != nil {
		return ex.RefuseUpstream(err)
	}
	if ex.Message.Method == mcp.MethodListen {
		defer ex.EndsAtStop()()
	}
	if ex.Session.Track(ex.Context, ex.Upstream) {
		defer func() {
			if !ex.Unanswered && ex.Context.Err() == nil {
				ex.Session.Untrack(ex.Context)
			}
		}()
	}
	if ex.Session.Joined {
		ex.Services.Sessions.FanOut(ex.Context, ex.Session.Client(), &ex.Message, ex.Upstream)
	}
	ex.SentUp = ex.Now()
	resp, err := ex.Session.Send(ex.Context, ex.Upstream, func(bool) (*upstream.Response, error) { return post(ex) })
	if err != nil {
		return ex.RefuseUpstream(err)
	}
	defer resp.Body.Close()
	ex.NoteResponse(resp)
	return relayAnswer(ex, resp)
}

// AnswerSearch answers a request for the tool search. The request has been judged before, and the
// answer is judged like that of an upstream, because it contains texts of upstreams.
func AnswerSearch(ex *exchange.Exchange) *refusal.Refusal {
	if ex.Services.Audit.Ready() != nil {
		return &refusal.Audit
	}
	if ex.Message.Kind != mcp.Request { // a notification has no response
		return acknowledge(ex, &upstream.Response{Status: http.StatusAccepted})
	}
	body, refused := ex.Services.Search.Answer(ex.Context, ex.Session.Client().Caller, &ex.Message, ex.Dialect.Version, func(upstream, tool string) bool {
		return ex.Session.View.Finds(upstream, tool) && ex.Live.Verdict.MayAsk(&ex.Who.Principal, ex.Governed.Set, upstream, mcp.MethodToolsCall, tool)
	})
	if refused != nil {
		return refused
	}
	return relayJSON(ex, &upstream.Response{
		Status: http.StatusOK, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	})
}

// post sends the message to the upstream.
func post(ex *exchange.Exchange) (*upstream.Response, error) {
	req := &ex.Outgoing
	*req = transport.Request{
		Session: ex.Session.SessionAt(ex.Session.There), Caller: ex.Session.Client().Caller, RequestID: ex.Record.RequestID,
		Header: ex.AppendHeader(ex.Fields[:0]),
		Body:   ex.Found.Rename(ex.Message.Body),
	}
	if ex.Message.Method == mcp.MethodListen {
		// A listen stream may be idle: subscriptions.idle_timeout applies instead of the upstream
		// time-out.
		req.Timeouts = &upstream.Timeouts{FirstByte: ex.Live.Config.Subscriptions.IdleTimeout}
	}
	resp, err := ex.Upstream.Transport.Post(ex.Context, req)
	ex.Fields = req.Header
	return resp, err
}

// relayAnswer relays the upstream's response according to its kind.
func relayAnswer(ex *exchange.Exchange, resp *upstream.Response) *refusal.Refusal {
	o := relay.OfResponse(resp, relayRequest(ex))
	switch o.Kind {
	case relay.Stream:
		return streaming.Relay(ex, resp)
	case relay.Message:
		return relayJSON(ex, resp)
	}
	return relayWithout(ex, resp, &o, nil)
}

// relayRequest describes the upstream request to package relay.
func relayRequest(ex *exchange.Exchange) relay.Request {
	return relay.Request{Awaited: ex.Message.Kind == mcp.Request || ex.HTTP.Method == http.MethodGet, InSession: ex.Session.Joined}
}

// relayWithout acknowledges a response without a message, or returns the refusal of one that is
// not forwarded and logs it. read is the part of its body that was read, nil for none.
func relayWithout(ex *exchange.Exchange, resp *upstream.Response, o *relay.Outcome, read []byte) *refusal.Refusal {
	if o.Kind == relay.Acknowledge {
		return acknowledge(ex, resp)
	}
	if o.Cause.Code == "" {
		return o.Refused
	}
	fail := ex.FailureOf(ex.Upstream, o.Cause)
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
func relayJSON(ex *exchange.Exchange, resp *upstream.Response) *refusal.Refusal {
	body, err := resp.ReadAll(ex.Buffers.Answer[:0], ex.CountBytes())
	ex.Buffers.Answer = body
	if err != nil {
		return ex.RefuseUpstream(err)
	}
	m, expected := &ex.Reply, ex.Answers()
	replaced, err := mcp.ScanReplacing(body, m)
	o := relay.OfMessage(resp, relayRequest(ex), body, m, err, ex.Message.Kind != mcp.Request || expected.IsAnswer(m))
	if o.Kind != relay.Message {
		return relayWithout(ex, resp, &o, body)
	}
	ex.Record.ReplacedSurrogates += replaced
	at := answers.Moment{Snapshot: &ex.Live.Verdict, Host: exchange.AnswerHost{Exchange: ex}, Upstream: ex.Upstream}
	t := expected.Whole(at, m, resp, ex.NoteAnswer)
	ex.NoteAnswer(&t.Result, m)
	if t.Refused != nil {
		return t.Refused
	}
	if err := ex.Account(resp.Status, len(t.Body)); err != nil {
		return &refusal.Audit
	}
	ex.CopyHeader(resp.Header)
	h := ex.Writer.Header()
	h["Content-Type"] = typeJSON
	h["Content-Length"] = []string{strconv.Itoa(len(t.Body))}
	ex.Writer.WriteHeader(resp.Status)
	ex.Writer.Write(t.Body)
	return nil
}

// acknowledge responds to a notification or a client's response with the upstream's status and no
// body.
func acknowledge(ex *exchange.Exchange, resp *upstream.Response) *refusal.Refusal {
	if err := ex.Account(resp.Status, 0); err != nil {
		return &refusal.Audit
	}
	ex.CopyHeader(resp.Header)
	ex.Writer.WriteHeader(resp.Status)
	return nil
}
