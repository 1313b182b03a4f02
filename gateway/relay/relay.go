// Package relay decides what becomes of an upstream's response, or of an error in its
// place, before anything of it is judged: whether it is passed on as one message, as a
// stream or as an acknowledgement, or which refusal the client gets, and what the log
// says about the upstream then.
package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"svc/gateway/bodies"
	"svc/gateway/mcp"
	"svc/gateway/mcpclient"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// Kind is what becomes of a response.
type Kind uint8

const (
	Refuse      Kind = iota // the client gets Outcome.Refused
	Message                 // one JSON-RPC message
	Stream                  // a stream of events
	Acknowledge             // a status and no body
)

// Outcome is what becomes of a response or an error.
type Outcome struct {
	Kind    Kind
	Refused *refusal.Refusal
	// Cause is what the upstream did wrong; without a code nothing is logged.
	Cause upstream.Cause
	// Secret is set where the log may not show the body of the response.
	Secret bool
}

// Request is what is asked of an upstream.
type Request struct {
	// Awaited is set where a response without a message is none: for requests, and for
	// streams.
	Awaited bool
	// InSession is set where the client has a session, which a 404 ends.
	InSession bool
}

// OfError decides about an error in the place of a response, of its body, or of the
// session at the upstream. left is
// set where the context of the client's request has ended.
func OfError(err error, left bool) Outcome {
	switch {
	case errors.Is(err, session.ErrUnknown):
		return Outcome{Refused: &refusal.Session}
	case errors.Is(err, session.ErrUnavailable):
		return Outcome{Refused: refusal.SessionStore.After(time.Second)}
	case left:
		// The client has left; the answer reaches nobody, the audit line says why.
		return Outcome{Refused: &refusal.CallerGone}
	case errors.Is(err, bodies.ErrOverloaded):
		return Outcome{Refused: &refusal.Overloaded}
	case errors.Is(err, upstream.ErrInvalidRequest):
		return Outcome{Refused: &refusal.Header}
	case errors.Is(err, context.Canceled):
		return Outcome{Refused: &refusal.Canceled}
	case errors.Is(err, upstream.ErrNoSubject):
		// The upstream has done nothing: it is the caller who lacks something.
		return Outcome{Refused: &refusal.NoSubjectToken}
	}
	o := Outcome{Refused: &refusal.Unreachable, Cause: upstream.CauseOf(err)}
	own := errors.Is(err, mcpclient.ErrAnswer) || errors.Is(err, mcpclient.ErrTooLarge) || errors.Is(err, mcpclient.ErrRejected)
	if own {
		o.Cause = upstream.Cause{Code: "own_request", Text: upstream.Printable(err.Error(), maxBody)}
	}
	switch {
	case errors.Is(err, upstream.ErrLoginRequired):
		o.Refused = &refusal.UpstreamLogin
	case errors.Is(err, upstream.ErrCredentials):
		o.Refused = &refusal.UpstreamCredentials
	case errors.Is(err, upstream.ErrBusy):
		o.Refused = &refusal.UpstreamBusy
	case errors.Is(err, upstream.ErrExited):
		o.Refused = &refusal.UpstreamExited
	case errors.Is(err, upstream.ErrTimeout):
		o.Refused = &refusal.Timeout
	case errors.Is(err, upstream.ErrTooLarge):
		o.Refused = &refusal.UpstreamTooLarge
	case own, errors.Is(err, upstream.ErrInvalidResponse):
		o.Refused = &refusal.UpstreamInvalid
	case o.Cause.Code == upstream.CauseDNS:
		o.Refused = &refusal.DNS
	case o.Cause.Code == upstream.CauseTLS:
		o.Refused = &refusal.TLS
	}
	return o
}

// OfResponse decides about a response by its status and media type.
func OfResponse(resp *upstream.Response, r Request) Outcome {
	switch {
	case resp.Status == http.StatusUnauthorized:
		// The upstream asks for a credential that is the gateway's business, not
		// the caller's; its challenge never leaves here.
		return Outcome{Refused: &refusal.UpstreamAuth, Cause: upstream.Cause{
			Code: "unauthorized", Text: "asks for credentials: see headers and credentials of this upstream",
		}}
	case resp.Status >= 300 && resp.Status < 400:
		// Redirects are not followed.
		return Outcome{Refused: &refusal.UpstreamInvalid, Secret: true, Cause: upstream.Cause{
			Code: "redirect", Text: "redirects to " + upstream.LogURL(resp.Header.Get("Location")),
		}}
	}
	switch resp.MediaType() {
	case "text/event-stream":
		if resp.Status != http.StatusOK {
			return refuseContent(&refusal.UpstreamInvalid, resp)
		}
		return Outcome{Kind: Stream}
	case "application/json":
		return Outcome{Kind: Message}
	default:
		return withoutMessage(resp, r)
	}
}

// OfMessage decides about a body that was announced as a message: m is what was read
// of it, with the error of its scan, and answers whether it has the id of the request.
// The body is not empty but for white space.
func OfMessage(resp *upstream.Response, r Request, body []byte, m *mcp.Message, err error, answers bool) Outcome {
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return withoutMessage(resp, r)
	case err != nil || m.Kind != mcp.Response:
		if resp.Status >= 400 && resp.Status < 500 {
			return withoutMessage(resp, r)
		}
		return Outcome{Refused: &refusal.UpstreamInvalid, Cause: invalidMessage(err)}
	case resp.Status < 400 && !answers:
		return Outcome{Refused: &refusal.UpstreamInvalid, Cause: upstream.Cause{
			Code: "foreign_id", Text: "answered with the id of another request",
		}}
	}
	return Outcome{Kind: Message}
}

// withoutMessage decides about a response without a JSON-RPC message. A notification
// or a client's response is acknowledged that way; a request is not. What an SDK
// server says in plain text with a 4xx keeps its status and becomes a JSON-RPC
// error, because text in its place ends the session of some clients.
func withoutMessage(resp *upstream.Response, r Request) Outcome {
	switch {
	case resp.Status >= 500:
		return refuseContent(&refusal.UpstreamInvalid, resp)
	case resp.Status == http.StatusNotFound && r.InSession:
		return Outcome{Refused: &refusal.Session}
	case resp.Status >= 400:
		refused := refusal.ByUpstream
		refused.Status = resp.Status
		if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds <= 86400 {
			refused.RetryAfter = time.Duration(seconds) * time.Second
		}
		return refuseContent(&refused, resp)
	case r.Awaited:
		return refuseContent(&refusal.UpstreamInvalid, resp)
	}
	return Outcome{Kind: Acknowledge}
}

// refuseContent refuses a response for its status or its Content-Type.
func refuseContent(refused *refusal.Refusal, resp *upstream.Response) Outcome {
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
	return Outcome{Refused: refused, Cause: cause}
}

// invalidMessage says why JSON is not the message that a response must be.
func invalidMessage(err error) upstream.Cause {
	text := "answered JSON that is no JSON-RPC response"
	if err != nil {
		text += ": " + upstream.Printable(err.Error(), maxBody)
	}
	return upstream.Cause{Code: "invalid_message", Text: text}
}

const (
	// maxBody is how much of a refused response the log shows, in bytes.
	maxBody = 200
	// bodyWait bounds the wait for the beginning of a refused response.
	bodyWait = 250 * time.Millisecond
)

// Excerpt returns the beginning of a response that is not passed on, for the log: of
// read where something was read of it, else of its body, which cannot be read any
// further afterwards.
func (o *Outcome) Excerpt(resp *upstream.Response, read []byte) string {
	switch {
	case o.Secret:
		return ""
	case read == nil:
		stop := time.AfterFunc(bodyWait, func() { resp.Body.Close() })
		defer stop.Stop()
		b := make([]byte, maxBody+utf8.UTFMax)
		n, _ := io.ReadFull(resp.Body, b) // what came until then is worth showing
		read = b[:n]
	}
	return upstream.Printable(read, maxBody)
}

// OwnID gives a response the request's own id where the upstream left it null or
// out, or wrote an id of its own into an error: some clients end their session
// otherwise. body is the message m as it goes on; id is empty where there is none.
func OwnID(id []byte, m *mcp.Message, body []byte) []byte {
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
