package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"svc/gateway/bodies"
	"svc/gateway/failures"
	"svc/gateway/mcp"
	"svc/gateway/mcpclient"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// openUpstreams makes what the configured upstreams are reached by.
func openUpstreams(configured []upstream.Config) (map[string]*transport.Upstream, error) {
	all := make(map[string]*transport.Upstream, len(configured))
	for _, c := range configured {
		client, err := upstream.NewClient(c)
		if err != nil {
			return all, fmt.Errorf("upstream %q: %w", c.Name, err)
		}
		all[c.Name] = &transport.Upstream{Name: c.Name, Transport: transport.NewHTTP(client, transport.StaticHeaders{}), Timeout: c.Timeout}
	}
	return all, nil
}

// forward sends the message that was judged, byte for byte, and relays what
// comes back.
func (ex *exchange) forward() *refusal.Refusal {
	if ex.g.audit.Ready() != nil {
		return &refusal.Audit // what cannot be recorded is not done
	}
	if refused := ex.upstreamSession(); refused != nil {
		return refused
	}
	if ex.msg.Method == mcp.MethodListen {
		defer ex.endsAtStop()()
	}
	defer ex.trackInFlight()()
	if ex.hasHandle {
		ex.g.sessions.FanOut(ex.ctx, ex.client(), &ex.msg, ex.up)
	}
	resp, refused := ex.inSession(func(bool) (*upstream.Response, error) { return ex.post() })
	if refused != nil {
		return refused
	}
	defer resp.Body.Close()
	ex.executed = true
	return ex.relay(resp)
}

// post sends the message to the upstream.
func (ex *exchange) post() (*upstream.Response, error) {
	ex.caller = ex.transportCaller()
	req := &ex.outgoing
	*req = transport.Request{
		Session: ex.sessionThere(ex.upSession), Caller: &ex.caller,
		Header: ex.appendHeader(ex.fields[:0]),
		Body:   ex.msg.Body,
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

// sessionThere is the session of a request at its upstream. The version is the one
// that was resolved, or agreed on when the gateway opened the session: the upstream
// cannot read the request as another revision than the gateway did.
func (ex *exchange) sessionThere(s session.UpstreamSession) session.UpstreamSession {
	if s.Version == "" {
		s.Version = ex.dialect.Version
	}
	return s
}

// refuseUpstream turns a failed exchange with an upstream into its answer.
func (ex *exchange) refuseUpstream(err error) *refusal.Refusal {
	switch {
	case ex.ctx.Err() != nil:
		// The caller has left; the answer reaches nobody, the audit line says why.
		return &refusal.CallerGone
	case errors.Is(err, bodies.ErrOverloaded):
		return &refusal.Overloaded
	case errors.Is(err, upstream.ErrInvalidRequest):
		return &refusal.Header
	case errors.Is(err, context.Canceled):
		return &refusal.Canceled
	}
	cause := upstream.CauseOf(err)
	invalid := errors.Is(err, mcpclient.ErrAnswer) || errors.Is(err, mcpclient.ErrTooLarge) || errors.Is(err, mcpclient.ErrRejected)
	if invalid {
		cause = upstream.Cause{Code: "own_request", Text: upstream.Printable(err.Error(), maxRefusedBody)}
	}
	ex.g.failures.Report(ex.failureOf(ex.up, cause))
	switch {
	case errors.Is(err, upstream.ErrTimeout):
		return &refusal.Timeout
	case errors.Is(err, upstream.ErrTooLarge):
		return &refusal.UpstreamTooLarge
	case invalid, errors.Is(err, upstream.ErrInvalidResponse):
		return &refusal.UpstreamInvalid
	case cause.Code == upstream.CauseDNS:
		return &refusal.DNS
	case cause.Code == upstream.CauseTLS:
		return &refusal.TLS
	default:
		return &refusal.Unreachable
	}
}

// relay passes the upstream's answer on by its kind.
func (ex *exchange) relay(resp *upstream.Response) *refusal.Refusal {
	switch {
	case resp.Status == http.StatusUnauthorized:
		// The upstream asks for a credential that is the gateway's business, not
		// the caller's; its challenge never leaves here.
		return ex.refuseResponse(&refusal.UpstreamAuth, resp, nil, upstream.Cause{
			Code: "unauthorized", Text: "asks for credentials: set them in headers of this upstream",
		})
	case resp.Status >= 300 && resp.Status < 400:
		// Redirects are not followed.
		return ex.refuseResponse(&refusal.UpstreamInvalid, resp, []byte{}, upstream.Cause{
			Code: "redirect", Text: "redirects to " + upstream.LogURL(resp.Header.Get("Location")),
		})
	}
	switch resp.MediaType() {
	case "text/event-stream":
		if resp.Status != http.StatusOK {
			return ex.refuseContent(&refusal.UpstreamInvalid, resp, nil)
		}
		return ex.relayStream(resp)
	case "application/json":
		return ex.relayJSON(resp)
	default:
		return ex.relayOther(resp, nil)
	}
}

// relayOther passes on an answer without a JSON-RPC body. A notification or a
// client's answer is acknowledged that way; a request is not. What an SDK
// server says in plain text with a 4xx keeps its status and becomes a JSON-RPC
// error, because text in its place ends the session of some clients. read is what
// was read of the body, nil when nothing was.
func (ex *exchange) relayOther(resp *upstream.Response, read []byte) *refusal.Refusal {
	switch {
	case resp.Status >= 500:
		return ex.refuseContent(&refusal.UpstreamInvalid, resp, read)
	case resp.Status == http.StatusNotFound && ex.hasHandle:
		return &refusal.Session
	case resp.Status >= 400:
		refused := refusal.ByUpstream
		refused.Status = resp.Status
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds <= 86400 {
			refused.RetryAfter = time.Duration(seconds) * time.Second
		}
		return ex.refuseContent(&refused, resp, read)
	case ex.msg.Kind == mcp.Request, ex.r.Method == http.MethodGet:
		return ex.refuseContent(&refusal.UpstreamInvalid, resp, read)
	}
	return ex.acknowledge(resp)
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

// maxRefusedBody is how much of a refused answer the log shows, in bytes.
const maxRefusedBody = 200

// failureOf describes a failure of an upstream during this request.
func (ex *exchange) failureOf(t *transport.Upstream, cause upstream.Cause) *failures.Failure {
	return &failures.Failure{
		Upstream: t.Name, URL: t.Transport.Address(), Code: cause.Code, Cause: cause.Text, RequestID: ex.rec.RequestID,
	}
}

// refuseResponse reports an answer of the upstream that is not passed on, and
// returns the refusal that takes its place. read is what was read of its body,
// nil when nothing was.
func (ex *exchange) refuseResponse(refused *refusal.Refusal, resp *upstream.Response, read []byte, cause upstream.Cause) *refusal.Refusal {
	fail := ex.failureOf(ex.up, cause)
	fail.Status = resp.Status
	if ex.g.failures.First(fail) {
		if read == nil {
			read = beginningOf(resp)
		}
		fail.Body = upstream.Printable(read, maxRefusedBody)
		ex.g.failures.Write(fail)
	}
	return refused
}

// refuseContent refuses an answer for its status or its Content-Type.
func (ex *exchange) refuseContent(refused *refusal.Refusal, resp *upstream.Response, read []byte) *refusal.Refusal {
	media := resp.MediaType()
	cause := upstream.Cause{Code: "status_" + strconv.Itoa(resp.Status), Text: "answered status " + strconv.Itoa(resp.Status)}
	if resp.Status < 300 {
		cause.Code = "content_type"
		if media == "" || resp.ContentLength == 0 {
			cause.Text += " without a message"
		}
	}
	if media != "" {
		cause.Text += ", " + upstream.Printable(media, 100)
	}
	return ex.refuseResponse(refused, resp, read, cause)
}

// refusedBodyWait bounds the wait for the beginning of a refused answer.
const refusedBodyWait = 250 * time.Millisecond

// beginningOf reads the beginning of an answer that is not passed on, for the
// log. The body cannot be read any further afterwards.
func beginningOf(resp *upstream.Response) []byte {
	stop := time.AfterFunc(refusedBodyWait, func() { resp.Body.Close() })
	defer stop.Stop()
	b := make([]byte, maxRefusedBody+utf8.UTFMax)
	n, _ := io.ReadFull(resp.Body, b) // what came until then is worth showing
	return b[:n]
}

// invalidMessage says why JSON is not the message that an answer must be.
func invalidMessage(err error) upstream.Cause {
	text := "answered JSON that is no JSON-RPC response"
	if err != nil {
		text += ": " + upstream.Printable(err.Error(), maxRefusedBody)
	}
	return upstream.Cause{Code: "invalid_message", Text: text}
}
