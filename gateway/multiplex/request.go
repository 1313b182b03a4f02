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

// Request is one request of a client, as far as sessions are concerned: the session
// that it is in, and the upstream that it belongs to because of a message before it.
// The fields up to Dialect are set by whoever serves the request, as soon as they are
// known. It belongs to the request's goroutine.
type Request struct {
	Sessions *Sessions
	Header   http.Header // of the client, with canonical names
	Who      *auth.Principal
	Token    *auth.Token // nil without one
	// Hops is the value of [upstream.HeaderHops] for what the request causes.
	Hops    string
	Message *mcp.Message
	Dialect mcp.Dialect
	// View is the view that the request came to; nil for all that the gateway has.
	View *views.View

	Handle session.Handle
	Joined bool // the request has a session, which is that of Handle
	// ClientInfo is what the client calls itself, in the message or when it opened the
	// session. Join sets it.
	ClientInfo mcp.ClientInfo
	// There is the session at the upstream of the request.
	There mcp.Session
	// Unknown says how a message is acknowledged that refers to something that was
	// never issued, and goes nowhere; nil for others.
	Unknown *refusal.Refusal

	follows  *transport.Upstream // of the tag that Untag removed
	untagged bool
	rejected bool
	caller   transport.Caller
}

// Join reads the session handle that the client presents. A handle that was not made
// for this caller, or at another view, is answered like one that never was. The revision without sessions
// ignores a handle.
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

// Issue returns the Mcp-Session-Id that the client sees when the upstream up answered
// with sid: nothing where there is no session, the handle that the client already
// holds, or a new one for an initialize.
//
// With one upstream a handle is made only when the upstream made a session; with
// several always, because any of the others may want one.
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

// Caller is the client of this request as transports know it.
func (r *Request) Caller() transport.Caller {
	return transport.Caller{Principal: r.Who, Token: r.Token, Header: r.Header, View: r.View, Session: r.Handle.ID, HasSession: r.Joined}
}

// Client is the client's session as the sessions at upstreams are found by it.
func (r *Request) Client() Client {
	r.caller = r.Caller()
	return Client{Handle: r.Handle, Version: r.Dialect.Version, Hops: r.Hops, Caller: &r.caller}
}

// Several reports whether the session of the request has more than one upstream, so
// that ids are tagged with theirs.
func (r *Request) Several() bool { return r.Joined && r.Sessions.Several() }

// TagFor returns the tag of a stream of this request: none where the session has one
// upstream.
func (r *Request) TagFor(t tag.Kind) tag.Kind {
	if r.Several() {
		return t
	}
	return tag.None
}

// Untag finds the upstream of a client's answer to a server request, or of the
// progress of one, and removes the tag. It runs before the rules, so that they judge
// the message that is sent.
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

// Follow finds the upstream of a client's message that belongs to one before it: what
// Untag found, where the request runs that is canceled, or where the task is that the
// message asks about. Without a trace of the one before it is nil.
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

// Find finds the session at the upstream that the request is routed to. The errors are
// those of [Sessions.Find].
func (r *Request) Find(ctx context.Context, up *transport.Upstream) (err error) {
	if r.Joined {
		r.There, err = r.Sessions.Find(ctx, r.Client(), up)
	}
	return err
}

// SessionAt is the session of the request at an upstream, where it has s. The version
// is the one that was resolved, or agreed on when the gateway opened the session: the
// upstream cannot read the request as another revision than the gateway did.
func (r *Request) SessionAt(s mcp.Session) mcp.Session {
	if s.Version == "" {
		s.Version = r.Dialect.Version
	}
	return s
}

// Send sends the request to the upstream, and once more in another session where the
// upstream answers that it no longer knows its session, as after a restart. Nothing was
// executed then. The errors are those of send and of [Sessions.Reopen].
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

// Track remembers where the request is until Untrack, so that its cancellation can be
// routed; false where that needs no memory.
func (r *Request) Track(ctx context.Context, up *transport.Upstream) bool {
	if r.Message.Kind != mcp.Request || !r.Several() || up.Name == r.Sessions.opts.Default {
		return false
	}
	r.Sessions.inFlight.Add(ctx, r.Handle.ID, r.Message.ID, up.Name)
	return true
}

// Untrack ends what Track began. It is not called when the client disconnected first:
// the upstream may still work on the request, and the client cancel it then.
func (r *Request) Untrack(ctx context.Context) {
	r.Sessions.inFlight.Remove(ctx, r.Handle.ID, r.Message.ID)
}

// RejectStopped answers a server's request in the place of the client, whose answer to
// it was refused, whatever refused it: the call that it belongs to would wait for the
// answer for ever. It does so once. version is the revision in which the upstream is
// addressed, empty for its own.
func (r *Request) RejectStopped(ctx context.Context, refused *refusal.Refusal, requestID, version string) {
	s, m := r.Sessions, r.Message
	if r.rejected || m.Kind != mcp.Response || len(m.ID) == 0 {
		return
	}
	r.rejected = true
	if !r.untagged && (r.Join(ctx) != nil || r.Untag() != nil) {
		return // it was refused before its session was opened, and has none
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
		code = mcp.CodeInternal // the other codes are about the client and its HTTP request
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
