package request

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
)

// Kind is the classification of a response.
type Kind uint8

const (
	Refuse        Kind = iota // the client gets Outcome.Refused
	Message                   // one JSON-RPC message
	RelayedStream             // a stream of events
	Acknowledge               // a status and no body
)

// Outcome is the classification of a response or an error.
type Outcome struct {
	Kind    Kind
	Refused *refusal.Refusal
	// Cause is the failure of the upstream; without a code nothing is logged.
	Cause upstream.Cause
	// Secret is set if the log must not contain the body of the response.
	Secret bool
}

// Relayed is the part of a request that the classification of its response depends on.
type Relayed struct {
	// Awaited is set if a response must contain a message: for requests, and for
	// streams.
	Awaited bool
	// InSession is set if the client has a session, which a 404 ends.
	InSession bool
}

// ofError classifies an error of a request, of reading its response, or of finding the
// session at the upstream. left is set if the context of the client's request has
// ended.
func ofError(err error, left bool) Outcome {
	switch {
	case errors.Is(err, session.ErrUnknown):
		return Outcome{Refused: &refusal.Session}
	case errors.Is(err, session.ErrUnavailable):
		return Outcome{Refused: refusal.SessionStore.After(time.Second)}
	case left:
		// The client has disconnected; no response is sent, and the audit line records
		// the reason.
		return Outcome{Refused: &refusal.CallerGone}
	case errors.Is(err, bodies.ErrOverloaded):
		return Outcome{Refused: &refusal.Overloaded}
	case errors.Is(err, upstream.ErrInvalidRequest):
		return Outcome{Refused: &refusal.Header}
	case errors.Is(err, context.Canceled):
		return Outcome{Refused: &refusal.Canceled}
	case errors.Is(err, upstream.ErrSubjectAudience):
		return Outcome{Refused: &refusal.SubjectAudience}
	case errors.Is(err, upstream.ErrNoSubject):
		// The upstream has not failed: the caller lacks a token.
		return Outcome{Refused: &refusal.NoSubjectToken}
	}
	o := Outcome{Refused: &refusal.Unreachable, Cause: upstream.CauseOf(err)}
	own := errors.Is(err, client.ErrAnswer) || errors.Is(err, client.ErrTooLarge) || errors.Is(err, client.ErrRejected)
	if own {
		o.Cause = upstream.Cause{Code: "own_request", Text: upstream.Printable(err.Error(), maxBody)}
	}
	switch {
	case o.Cause.Code == upstream.CauseDescriptors:
		o.Refused = &refusal.Descriptors
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

// ofResponse classifies a response by its status and media type.
func ofResponse(resp *upstream.Response, r Relayed) Outcome {
	switch {
	case resp.Status == http.StatusUnauthorized:
		// The upstream requires a credential of the gateway, not of the caller, so its
		// challenge is not forwarded.
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
		return Outcome{Kind: RelayedStream}
	case "application/json":
		return Outcome{Kind: Message}
	default:
		return withoutMessage(resp, r)
	}
}

// ofMessage classifies a body that was announced as a message: m is the result of its
// scan with the error, and answers reports whether it has the id of the request. The
// body contains more than white space.
func ofMessage(resp *upstream.Response, r Relayed, body []byte, m *mcp.Message, err error, answers bool) Outcome {
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

// status returns the status with which a message of an upstream is forwarded. own is set for a
// client whose session the gateway itself has issued: it takes any 404 for the end of that session,
// whatever the error of the upstream. sent is the kind of the client's message
// (see [refusal.Refusal.InSession]).
func status(resp *upstream.Response, sent mcp.Kind, own bool) int {
	switch {
	case !own || resp.Status != http.StatusNotFound:
		return resp.Status
	case sent != mcp.Request:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// withoutMessage classifies a response without a JSON-RPC message. Such a response
// acknowledges a notification or a client's response, but not a request. A plain text
// response of an SDK server with a 4xx keeps its status and becomes a JSON-RPC error,
// because plain text ends the session in some clients.
func withoutMessage(resp *upstream.Response, r Relayed) Outcome {
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

// refuseContent refuses a response because of its status or its Content-Type.
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

// invalidMessage returns the reason why JSON is not a valid response message.
func invalidMessage(err error) upstream.Cause {
	text := "answered JSON that is not a JSON-RPC response"
	if err != nil {
		text += ": " + upstream.Printable(err.Error(), maxBody)
	}
	return upstream.Cause{Code: "invalid_message", Text: text}
}

const (
	// maxBody is the number of bytes of a refused response in the log.
	maxBody = 200
	// bodyWait bounds the wait for the beginning of a refused response.
	bodyWait = 250 * time.Millisecond
)

// Excerpt returns the beginning of a response that is not forwarded, for the log: of
// read if a part was read already, otherwise of its body, which cannot be read any
// further afterwards.
func (o *Outcome) Excerpt(resp *upstream.Response, read []byte) string {
	switch {
	case o.Secret:
		return ""
	case read == nil:
		stop := time.AfterFunc(bodyWait, func() { resp.Body.Close() })
		defer stop.Stop()
		b := make([]byte, maxBody+utf8.UTFMax)
		n, _ := io.ReadFull(resp.Body, b) // on a timeout, the bytes that arrived are used
		read = b[:n]
	}
	return upstream.Printable(read, maxBody)
}

// ownID gives a response the request's own id if the upstream's id is null or missing,
// or differs in an error: some clients end their session otherwise. body is the
// forwarded form of message m; id is empty if there is none.
func ownID(id []byte, m *mcp.Message, body []byte) []byte {
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
