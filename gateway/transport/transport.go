// Package transport carries messages between the gateway and one upstream. It is the extension
// point for another kind of upstream, or another way to authenticate at one: its users depend on
// [Transport] only, not on URLs or credentials.
//
// [HTTP] is the Streamable HTTP transport over [upstream.Client]; [StaticHeaders] are the
// credentials of upstreams[].headers.
package transport

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/upstream"
	"svc/gateway/views"
)

// Transport carries messages to one upstream, and back. It is safe for concurrent use. It retains
// nothing of a request once the method has returned; a response must be closed by its caller, and
// the context applies to its body too.
//
// A response has the form of the Streamable HTTP transport, for any transport: its Content-Type
// distinguishes one message (application/json) from a stream of them (text/event-stream), its
// status tells whether the message was accepted, and 404 means that the session is not known. A
// body that is still incomplete has a method BeforeWait: see [upstream.Response.BeforeWait]. Errors
// are [*upstream.Error] values, or the errors of [Credentials].
type Transport interface {
	// Post sends one message. The response contains the response to a request, after the messages
	// that the upstream sends before it; it is empty for other messages.
	Post(ctx context.Context, r *Request) (*upstream.Response, error)
	// Listen opens the stream of an upstream's messages in a session outside of responses, starting
	// after LastEventID; status 405 if there is no such stream. Listen and End ignore a body in the
	// request.
	Listen(ctx context.Context, r *Request) (*upstream.Response, error)
	// End ends a session.
	End(ctx context.Context, r *Request) (*upstream.Response, error)
	// Address returns the destination of the messages in a form for logs.
	Address() string
	// Close releases the transport's resources; new requests fail.
	Close() error
}

// Holder is a Transport that may hold a call open at the upstream, while the client answers a
// question.
type Holder interface {
	// Abandon cancels the call whose question the client did not get, given the requestState of the
	// question. Unknown states are ignored.
	Abandon(requestState string)
}

// Request is one message for an upstream, or the opening or end of a session's
// stream.
type Request struct {
	// Session is the session at the upstream; empty before initialize.
	Session mcp.Session
	// Caller is the client on whose behalf the gateway sends the request; nil when it
	// sends the request for itself.
	Caller *Caller
	// RequestID is the id of the client's request in audit lines and errors; empty for a request of
	// the gateway's own. A transport that responds itself includes it in its errors.
	RequestID string
	// Header contains the other fields for an HTTP upstream. A transport may append to it.
	Header upstream.Header
	// Body is one JSON-RPC message, sent unchanged.
	Body []byte
	// LastEventID is the position from which a stream resumes; empty for its start.
	LastEventID string
	// Idempotent declares that the upstream may receive the message twice without
	// harm. A tool call is not idempotent.
	Idempotent bool
	// Timeouts overrides the configured timeouts if it is not nil.
	Timeouts *upstream.Timeouts
}

// Caller is the client on whose behalf the gateway sends a request. Transports with a process, a
// token or a connection for each session or principal use it as their key. It is valid only during
// the request.
type Caller struct {
	// Principal is the verified identity of the client.
	Principal *auth.Principal
	// Token is the verified bearer token of the client; nil without one.
	Token *auth.Token
	// Header is the client's own header, which contains the text of the token. It must not be sent
	// to the upstream.
	Header http.Header
	// View is the view that the client uses; nil for the whole gateway.
	View *views.View
	// Session is the client's session; HasSession is false without one.
	Session    session.ID
	HasSession bool
}

// CacheKey returns the key for data of a caller with its credentials: its principal, the id of its
// API key, and the rights of its token, so that a refreshed token with equal rights has the same
// key. shared is false for a caller that is identified by its address only, and without a caller:
// its data must be kept for one call or one session of a client only, because others may have that
// address.
func (c *Caller) CacheKey() (key [sha256.Size]byte, shared bool) {
	if c == nil || c.Principal == nil {
		return key, false
	}
	text := c.Principal.AppendKey(nil)
	text = append(append(text, 0), c.Principal.KeyID...)
	if c.Token != nil {
		text = append(append(text, 0), c.Token.Rights[:]...)
	}
	return sha256.Sum256(text), c.Principal.Kind != auth.KindIP
}

// Clone returns a copy that is valid after the request; nil for nil.
func (c *Caller) Clone() *Caller {
	if c == nil {
		return nil
	}
	who := *c.Principal
	return &Caller{Principal: &who, Token: c.Token, Header: c.Header.Clone(), View: c.View, Session: c.Session, HasSession: c.HasSession}
}

// Credentials authenticate the gateway at one upstream. They are safe for concurrent
// use.
type Credentials interface {
	// Fields returns the header fields that authenticate a request on behalf of a client, or of the
	// gateway itself when c is nil. They replace the request's own fields of these names. After an
	// error nothing is sent.
	Fields(ctx context.Context, c *Caller) ([]upstream.Field, error)
	// Rejected is called when the upstream responded with 401 to a request with these fields. It
	// reports whether Fields now returns others, so that the request is sent once more.
	Rejected(ctx context.Context, c *Caller, fields []upstream.Field) bool
}

// Upstream is one configured upstream.
type Upstream struct {
	Name string
	// Transport carries messages of clients of both protocol generations.
	Transport Transport
	// Direct carries the gateway's own messages, which are of the generation that the upstream
	// supports. Transport sends through it, or is the same.
	Direct Transport
	// Timeout is the configured timeout, for requests without one of its limits.
	Timeout time.Duration
}

// Open returns the upstream of a validated configuration with a url, with the limits of the
// configuration. It sends nothing, and the upstream may be unavailable; its transport must be
// closed.
func Open(c upstream.Config, credentials Credentials, log *slog.Logger, now func() time.Time) (*Upstream, error) {
	client, err := upstream.NewClient(c)
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", c.Name, err)
	}
	direct := Bound(c, NewHTTP(client, credentials), log, now)
	return &Upstream{Name: c.Name, Transport: direct, Direct: direct, Timeout: c.Timeout}, nil
}
