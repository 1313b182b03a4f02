// Package forwarding sends a request that was judged to its upstream, and passes on what
// comes back: a message, an event stream, an acknowledgement, or a refusal.
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

// Forward sends the message that was judged, byte for byte, and relays what
// comes back.
func Forward(ex *exchange.Exchange) *refusal.Refusal {
	if ex.Services.Audit.Ready() != nil {
		return &refusal.Audit // what cannot be recorded is not done
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

// AnswerSearch answers what the tool search takes over. It comes after all that judges
// a request, and what it answers is judged like the answer of an upstream, whose texts
// it holds.
func AnswerSearch(ex *exchange.Exchange) *refusal.Refusal {
	if ex.Services.Audit.Ready() != nil {
		return &refusal.Audit
	}
	if ex.Message.Kind != mcp.Request { // nobody waits for an answer
		return acknowledge(ex, &upstream.Response{Status: http.StatusAccepted})
	}
	body, refused := ex.Services.Search.Answer(ex.Context, ex.Session.Client().Caller, &ex.Message, ex.Dialect.Modern, func(upstream, tool string) bool {
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
		// A listen stream is silent by nature: subscriptions.idle_timeout
		// judges it, not the upstream time-out.
		req.Timeouts = &upstream.Timeouts{FirstByte: ex.Live.Config.Subscriptions.IdleTimeout}
	}
	resp, err := ex.Upstream.Transport.Post(ex.Context, req)
	ex.Fields = req.Header
	return resp, err
}

// relayAnswer passes the upstream's answer on by its kind.
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

// relayRequest is what the upstream was asked.
func relayRequest(ex *exchange.Exchange) relay.Request {
	return relay.Request{Awaited: ex.Message.Kind == mcp.Request || ex.HTTP.Method == http.MethodGet, InSession: ex.Session.Joined}
}

// relayWithout acknowledges an answer without a message, or refuses one that is not
// passed on, and reports that one. read is what was read of its body, nil when nothing
// was.
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

// typeJSON is the Content-Type of nearly all answers. Nobody changes it.
var typeJSON = []string{"application/json"}

// relayJSON inspects a plain JSON answer and passes it on.
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

// acknowledge answers a notification or a client's response with the
// upstream's status and no body.
func acknowledge(ex *exchange.Exchange, resp *upstream.Response) *refusal.Refusal {
	if err := ex.Account(resp.Status, 0); err != nil {
		return &refusal.Audit
	}
	ex.CopyHeader(resp.Header)
	ex.Writer.WriteHeader(resp.Status)
	return nil
}
