// Package transport carries messages between the gateway and one upstream. It is the
// seam at which another kind of upstream, or another way to authenticate at one, is
// added: everything above it uses [Transport] and knows neither URLs nor credentials.
//
// [HTTP] is the Streamable HTTP transport over [upstream.Client]; [StaticHeaders] are
// the credentials that a configuration has in upstreams[].headers.
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

// Transport carries messages to one upstream, and back. It is safe for concurrent
// use. It keeps nothing of a request once the method has returned; a response is
// closed by its caller, and the context covers its body too.
//
// A response is that of the Streamable HTTP transport, whatever carried it: its
// Content-Type tells one message (application/json) from a stream of them
// (text/event-stream), its status whether the message was accepted, and 404 that the
// session is not known. A body that is not whole yet has a method BeforeWait: see
// [upstream.Response.BeforeWait]. Errors are [*upstream.Error] values, and the errors of
// [Credentials] as they are.
type Transport interface {
	// Post sends one message. The response holds the response to a request, after
	// what the upstream sends before it; nothing for other messages.
	Post(ctx context.Context, r *Request) (*upstream.Response, error)
	// Listen opens the stream of what an upstream sends in a session beside its
	// responses, from LastEventID on; status 405 where there is no such stream. A body
	// in the request is ignored, as it is by End.
	Listen(ctx context.Context, r *Request) (*upstream.Response, error)
	// End ends a session.
	End(ctx context.Context, r *Request) (*upstream.Response, error)
	// Address returns where the messages go, as a log may show it.
	Address() string
	// Close releases what the transport holds, and refuses new requests.
	Close() error
}

// Holder is a Transport that may hold a call open at the upstream, while the client is
// asked a question of it.
type Holder interface {
	// Abandon cancels the call whose question the client does not get, by the requestState
	// of the question. Others are ignored.
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
	// RequestID is the id of the client's request in audit lines and errors; empty for a
	// request of the gateway's own. A transport that answers by itself puts it into its
	// errors.
	RequestID string
	// Header has the other fields that an HTTP upstream is sent. A transport may append
	// to it.
	Header upstream.Header
	// Body is one JSON-RPC message, sent as it is.
	Body []byte
	// LastEventID is the position from which a stream resumes; empty for its start.
	LastEventID string
	// Idempotent declares that the upstream may receive the message twice without
	// harm. A tool call is not idempotent.
	Idempotent bool
	// Timeouts replaces the configured time-outs when it is not nil.
	Timeouts *upstream.Timeouts
}

// Caller is the client on whose behalf the gateway sends a request: whoever keeps a
// process, a token or a connection for each session or each principal tells them
// apart by it. It is valid during the request alone.
type Caller struct {
	// Principal is the verified identity of the client.
	Principal *auth.Principal
	// Token is the verified bearer token of the client; nil without one.
	Token *auth.Token
	// Header is the client's own header, in which the text of the token is. Nothing of
	// it may be sent to the upstream as it is.
	Header http.Header
	// View is the view that the client uses; nil for all that the gateway has.
	View *views.View
	// Session is the client's session; HasSession is false without one.
	Session    session.ID
	HasSession bool
}

// CacheKey returns the key under which what belongs to a caller with its credentials is
// kept: its principal, the id of its API key, and the rights of its token, so that a
// refreshed token with equal rights keeps what is kept. shared is false for a caller that
// is known by its address alone, and for none: what is kept for it lasts for one call or
// one session of a client, because others may have that address.
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

// Clone returns a copy that is valid beyond the request; nil for nil.
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
	// Fields returns the header fields that authenticate a request on behalf of a
	// client, or of the gateway itself when c is nil. They replace the request's own
	// fields of these names. An error ends the request before anything is sent.
	Fields(ctx context.Context, c *Caller) ([]upstream.Field, error)
	// Rejected notifies that the upstream answered a request with these fields with 401.
	// It reports whether Fields returns others from now on, so that the request is sent
	// once more.
	Rejected(ctx context.Context, c *Caller, fields []upstream.Field) bool
}

// Upstream is one configured upstream.
type Upstream struct {
	Name string
	// Transport carries messages of clients of either protocol generation.
	Transport Transport
	// Direct carries messages of the gateway's own, which are of the generation that the
	// upstream supports. It is what Transport sends through, or the same.
	Direct Transport
	// Timeout is the configured time-out, for requests that lift part of it.
	Timeout time.Duration
}

// Open returns the upstream of a validated configuration that has a url, behind the bounds that the
// configuration sets. Nothing is sent, and the upstream may be unavailable; its transport
// must be closed.
func Open(c upstream.Config, credentials Credentials, log *slog.Logger, now func() time.Time) (*Upstream, error) {
	client, err := upstream.NewClient(c)
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", c.Name, err)
	}
	direct := Bound(c, NewHTTP(client, credentials), log, now)
	return &Upstream{Name: c.Name, Transport: direct, Direct: direct, Timeout: c.Timeout}, nil
}
