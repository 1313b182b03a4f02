package multiplex

import (
	"context"
	"net/http"

	"svc/gateway/auth"
	"svc/gateway/headers"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/tag"
	"svc/gateway/transport"
	"svc/gateway/upstream"
	"svc/gateway/views"
)

// Request is the session state of one client request: its session, and the upstream of the earlier
// message that it refers to. The server of the request sets the fields up to Dialect as soon as they are
// known. It is used by the request's goroutine only.
type Request struct {
	Sessions *Sessions
	Header   http.Header // of the client, with canonical names
	Who      *auth.Principal
	Token    *auth.Token // nil without a token
	// Hops is the value of [upstream.HeaderHops] for requests that this request causes.
	Hops    string
	Message *mcp.Message
	Dialect mcp.Dialect
	// View is the view that received the request; nil for the whole gateway.
	View *views.View

	Handle session.Handle
	Joined bool // the request has a session, the one of Handle
	// ClientInfo is the client's self-declared name and version, from the message or from the opening of
	// the session. Join sets it.
	ClientInfo mcp.ClientInfo
	// There is the session at the request's upstream.
	There mcp.Session
	// Unknown is the acknowledgment of a message that refers to a tag that was never issued, and that is
	// not forwarded; nil for all other messages.
	Unknown *refusal.Refusal

	follows  *transport.Upstream // of the tag that Untag removed
	untagged bool
	rejected bool
	caller   transport.Caller
}

// Join reads the session handle that the client presents. A handle that was made for another caller, or
// at another view, gets the same response as a handle that never existed. The revisions without sessions
// ignore handles.
func (r *Request) Join(ctx context.Context) *refusal.Refusal {
	r.ClientInfo = mcp.ClientOf(r.Message)
	text, ok := headers.Single(r.Header, mcp.HeaderSession)
	if !ok {
		return &refusal.Header
	}
	if text == "" || r.Dialect.Modern || r.Message.Method == mcp.MethodInitialize {
		return nil
	}
	handle, err := r.Sessions.opts.Sealer.Open(text, r.owner(), r.View.Scope())
	if err != nil || r.Sessions.Ended(ctx, handle) {
		return &refusal.Session
	}
	r.Handle, r.Joined = handle, true
	if r.ClientInfo == (mcp.ClientInfo{}) {
		r.ClientInfo = handle.Client
	}
	return nil
}

func (r *Request) owner() session.Owner {
	return session.OwnerOf(r.Who.Kind.String(), r.Who.Issuer, r.Who.Value)
}

// Issue returns the Mcp-Session-Id for the client when the upstream up responded with sid: empty without
// a session, the handle that the client already has, or a new one for an initialize.
//
// With one upstream a handle is issued only when the upstream issued a session id; with several upstreams
// always, because any of them may issue one later.
func (r *Request) Issue(ctx context.Context, sid string, up *transport.Upstream) string {
	switch {
	case r.Dialect.Modern:
		return ""
	case r.Message.Method != mcp.MethodInitialize:
		if sid != "" && r.Joined {
			return r.Header.Get(mcp.HeaderSession)
		}
		return ""
	case sid == "" && !r.Sessions.Several():
		return ""
	}
	handle := session.Handle{ID: session.NewID(), Owner: r.owner(), Upstream: sid, Client: r.ClientInfo}
	text, err := r.Sessions.opts.Sealer.Seal(handle, r.View.Scope())
	if err != nil {
		r.Sessions.opts.Logger.Warn("upstream session id is too long to carry", "upstream", up.Name, "error", err)
		return ""
	}
	r.Sessions.State.Settings.SetParams(ctx, handle.ID, r.Message.Spans.Params.Of(r.Message.Body))
	return text
}

// Caller is the client of this request in the form that transports use.
func (r *Request) Caller() transport.Caller {
	return transport.Caller{Principal: r.Who, Token: r.Token, Header: r.Header, View: r.View, Session: r.Handle.ID, HasSession: r.Joined}
}

// Client is the client's session as a key of its upstream sessions.
func (r *Request) Client() Client {
	r.caller = r.Caller()
	return Client{Handle: r.Handle, Version: r.Dialect.Version, Hops: r.Hops, Caller: &r.caller}
}

// Several reports whether the session of the request has more than one upstream, so that ids are tagged
// with their upstream.
func (r *Request) Several() bool { return r.Joined && r.Sessions.Several() }

// TagFor returns the tag for a stream of this request: empty if the session has one upstream.
func (r *Request) TagFor(t tag.Kind) tag.Kind {
	if r.Several() {
		return t
	}
	return tag.None
}

// Untag finds the upstream of a client's response to a server request, or of a progress notification for
// one, and removes the tag. It runs before the rules, so that they are applied to the message that is
// sent.
func (r *Request) Untag() *refusal.Refusal {
	r.untagged = true
	if !r.Several() {
		return nil
	}
	var err error
	if r.follows, r.Unknown, err = r.Sessions.Untag(r.Message, r.View); err != nil {
		return refusal.OfMessage(err)
	}
	return nil
}

// Follow finds the upstream of a client's message that refers to an earlier message: the upstream that
// Untag found, the upstream of the request that is canceled, or the upstream of the task that the message
// refers to. It is nil when the earlier message is unknown.
func (r *Request) Follow(ctx context.Context) *transport.Upstream {
	s := r.Sessions
	switch {
	case r.follows != nil:
		return r.follows
	case r.Message.Method == mcp.NotificationCancelled && r.Several():
		name, _ := s.inFlight.Upstream(ctx, r.Handle.ID, r.Message.Spans.RequestID.Of(r.Message.Body))
		return s.opts.Upstreams[name]
	case s.tasks != nil:
		if name := s.tasks.Of(ctx, r.Who, r.Message); r.View.Has(name) {
			return s.opts.Upstreams[name]
		}
	}
	return nil
}

// Find finds the session at the upstream that the request is routed to. The errors are the errors of
// [Sessions.Find].
func (r *Request) Find(ctx context.Context, up *transport.Upstream) (err error) {
	if r.Joined {
		r.There, err = r.Sessions.Find(ctx, r.Client(), up)
	}
	return err
}

// SessionAt returns the session of the request at an upstream, if the session has s. The version is the
// one that was resolved, or negotiated when the gateway opened the session, so that the upstream and the
// gateway interpret the request as the same revision.
func (r *Request) SessionAt(s mcp.Session) mcp.Session {
	if s.Version == "" {
		s.Version = r.Dialect.Version
	}
	return s
}

// Send sends the request to the upstream. If the upstream no longer knows its session, as after a
// restart, the request was not executed, and Send sends it once more in a new session. The errors are the
// errors of send and of [Sessions.Reopen].
func (r *Request) Send(ctx context.Context, up *transport.Upstream, send func(again bool) (*upstream.Response, error)) (*upstream.Response, error) {
	resp, err := send(false)
	if err != nil || resp.Status != http.StatusNotFound || !r.Joined || !r.Sessions.WorthReopening(ctx, r.Handle.ID, r.There) {
		return resp, err
	}
	resp.Body.Close()
	if r.There, err = r.Sessions.Reopen(ctx, r.Client(), up, r.There); err != nil {
		return nil, err
	}
	return send(true)
}

// Track records the upstream of the request until Untrack, so that its cancellation can be routed; false
// when nothing needs to be recorded.
func (r *Request) Track(ctx context.Context, up *transport.Upstream) bool {
	if r.Message.Kind != mcp.Request || !r.Several() || up.Name == r.Sessions.opts.Default {
		return false
	}
	r.Sessions.inFlight.Add(ctx, r.Handle.ID, r.Message.ID, up.Name)
	return true
}

// Untrack removes the record of Track. It is not called when the client disconnected first: the upstream
// may still work on the request, and the client may still cancel it.
func (r *Request) Untrack(ctx context.Context) {
	r.Sessions.inFlight.Remove(ctx, r.Handle.ID, r.Message.ID)
}

// RejectStopped sends an error response to a server request on behalf of the client when the client's
// response was refused for any reason: the upstream's call would otherwise wait for the response forever.
// It does so once. version is the revision for the upstream, empty for the upstream's own.
func (r *Request) RejectStopped(ctx context.Context, refused *refusal.Refusal, requestID, version string) {
	s, m := r.Sessions, r.Message
	if r.rejected || m.Kind != mcp.Response || len(m.ID) == 0 {
		return
	}
	r.rejected = true
	if !r.untagged && (r.Join(ctx) != nil || r.Untag() != nil) {
		return // it was refused before its session was opened, so it has none
	}
	up := r.Follow(ctx)
	if up == nil {
		up = s.opts.Upstreams[s.opts.Default]
	}
	if r.Unknown != nil || up == nil {
		return
	}
	code, message := refused.Code, refused.Message
	if code != mcp.CodePolicyDenied {
		code = mcp.CodeInternal // the other codes concern the client and its HTTP request
	}
	client := r.Client()
	client.Version = version
	where := Always(mcp.Session{Version: version})
	if r.Joined {
		where = s.Existing(client, up)
	}
	s.Reject(up, Rejection{
		RequestID: requestID, Hops: r.Hops, Caller: client.Caller,
		Body:    mcp.AppendError(nil, m.ID, code, message, refused.Reason, requestID),
		Session: where,
	})
}
