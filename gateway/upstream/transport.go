package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/session"
)

// Transport carries messages to one upstream, and back. It is safe for concurrent use. It retains
// nothing of a request once the method has returned; a response must be closed by its caller, and
// the context applies to its body too.
//
// A response has the form of the Streamable HTTP transport, for any transport: its Content-Type
// distinguishes one message (application/json) from a stream of them (text/event-stream), its
// status tells whether the message was accepted, and 404 means that the session is not known. A
// body that is still incomplete has a method BeforeWait: see [HTTPResponse.BeforeWait]. Errors
// are [*Error] values, or the errors of [Credentials].
type Transport interface {
	// Post sends one message. The response contains the response to a request, after the messages
	// that the upstream sends before it; it is empty for other messages.
	Post(ctx context.Context, r *Request) (*Response, error)
	// Listen opens the stream of an upstream's messages in a session outside of responses, starting
	// after LastEventID; status 405 if there is no such stream. Listen and End ignore a body in the
	// request.
	Listen(ctx context.Context, r *Request) (*Response, error)
	// End ends a session.
	End(ctx context.Context, r *Request) (*Response, error)
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
	Header mcp.Header
	// Body is one JSON-RPC message, sent unchanged.
	Body []byte
	// Absent is the error for what the revision of the client requires and its request does not
	// have, nil for nothing: a transport that responds itself, or translates, refuses the request.
	Absent error
	// LastEventID is the position from which a stream resumes; empty for its start.
	LastEventID string
	// Idempotent declares that the upstream may receive the message twice without
	// harm. A tool call is not idempotent.
	Idempotent bool
	// Timeouts overrides the configured timeouts if it is not nil.
	Timeouts *Timeouts
	// BeforeSend is called last before the message is sent to the upstream, each time that it is; after
	// an error it is not sent, and Post returns the error. A transport that passes the message on passes
	// BeforeSend on with it. It may be nil.
	BeforeSend func(context.Context) error
}

// Ready calls BeforeSend.
func (r *Request) Ready(ctx context.Context) error {
	if r.BeforeSend == nil {
		return nil
	}
	return r.BeforeSend(ctx)
}

// Response is the response of a transport: a response in the form of HTTP, and what the gateway knows
// about it beyond that form.
type Response struct {
	HTTPResponse
	// Dialect is the protocol revision of the request at the upstream, if the message was
	// translated; empty if it was sent unchanged.
	Dialect string
	// Refused is set if the gateway refused the message instead of the upstream, or ended
	// its call: the body is the gateway's own. It is nil for a response of the upstream.
	Refused *Refused
	// Parts returns the parts of a response that the gateway assembled from several
	// upstreams; nil for all others.
	Parts func() *Parts
}

// Message returns a response with one JSON-RPC message.
func Message(status int, body []byte) *Response {
	return &Response{HTTPResponse: HTTPResponse{
		Status: status, Header: mcp.Header{{Name: "Content-Type", Value: "application/json"}},
		ContentLength: int64(len(body)), Body: newText(body),
	}}
}

// text is a body in memory.
type text struct{ bytes.Reader }

func newText(body []byte) *text {
	t := new(text)
	t.Reset(body)
	return t
}

// Close implements io.Closer.
func (*text) Close() error { return nil }

// Stream returns a response with an event stream.
func Stream(body io.ReadCloser) *Response {
	return &Response{HTTPResponse: HTTPResponse{
		Status: http.StatusOK, Header: mcp.Header{{Name: "Content-Type", Value: "text/event-stream"}}, ContentLength: -1, Body: body,
	}}
}

// Empty returns a response without a message.
func Empty(status int) *Response {
	return &Response{HTTPResponse: HTTPResponse{Status: status, Body: http.NoBody}}
}

// OnRefused calls f if the gateway responds instead of the upstream: at once if it has
// already, or before the last message of a stream that it ends. The body is read afterwards,
// by the same goroutine.
func (r *Response) OnRefused(f func(*Refused)) {
	if r.Refused != nil {
		f(r.Refused)
	} else if stream, ok := r.Body.(interface{ OnRefused(func(*Refused)) }); ok {
		stream.OnRefused(f)
	}
}

// Refused is the reason why the gateway responded instead of the upstream.
type Refused struct {
	Kind  string // the error_kind of the audit line
	Cause string // in words, for the log
}

// Parts are the parts of several upstreams in one response. Each is evaluated like that
// upstream's own response.
type Parts struct {
	List []Part
	// Join returns the response with the remaining parts in order: the result of each, nil
	// for an omitted one.
	Join func(results [][]byte) []byte
}

// Part is the part of one upstream: a result, as a JSON object.
type Part struct {
	Upstream string
	Result   []byte
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
	View *auth.View
	// Session is the client's session; HasSession is false without one.
	Session    session.ID
	HasSession bool
	// Params are the parameters of the initialize of the session, as far as its handle has them.
	Params string
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
	return &Caller{Principal: &who, Token: c.Token, Header: c.Header.Clone(), View: c.View, Session: c.Session, HasSession: c.HasSession, Params: c.Params}
}

// Credentials authenticate the gateway at one upstream. They are safe for concurrent
// use.
type Credentials interface {
	// Fields returns the header fields that authenticate a request on behalf of a client, or of the
	// gateway itself when c is nil. They replace the request's own fields of these names. After an
	// error nothing is sent.
	Fields(ctx context.Context, c *Caller) ([]mcp.Field, error)
	// Rejected is called when the upstream responded with 401 to a request with these fields. It
	// reports whether Fields now returns others, so that the request is sent once more.
	Rejected(ctx context.Context, c *Caller, fields []mcp.Field) bool
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
	// StartTimeout is the time that a program may need to start, in addition to the other bounds;
	// zero for a url.
	StartTimeout time.Duration
	// Network, Host and Port are where it is reached, for telemetry: tcp with the host and port
	// of the url, pipe for a program, empty for the gateway itself.
	Network, Host string
	Port          int
}

// Open returns the upstream of a validated configuration with a url, with the limits of the
// configuration. It sends nothing, and the upstream may be unavailable; its transport must be
// closed.
func Open(c Config, credentials Credentials, log *slog.Logger, now func() time.Time) (*Upstream, error) {
	client, err := NewClient(c)
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", c.Name, err)
	}
	client.LogTo(log)
	direct := Bound(c, NewHTTP(client, credentials), log, now)
	host, port := c.hostPort()
	return &Upstream{Name: c.Name, Transport: direct, Direct: direct, Timeout: c.Timeout, Network: "tcp", Host: host, Port: port}, nil
}

// hostPort returns the host and the port of the url of a validated configuration; the port is
// that of the scheme where the url names none.
func (c *Config) hostPort() (host string, port int) {
	u, err := parseURL(c.URL)
	if err != nil {
		return "", 0
	}
	if port, err = strconv.Atoi(u.Port()); err != nil {
		port = 443
		if u.Scheme == "http" {
			port = 80
		}
	}
	return u.Hostname(), port
}
