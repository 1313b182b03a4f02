package multiplex

import (
	"context"
	"net/http"
	"slices"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/upstream"
	"svc/gateway/upstream/translate"
)

// Request is the session state of one client request: its session, and the upstream of the earlier
// message that it refers to. The server of the request sets the fields up to Dialect as soon as they are
// known. It is used by the request's goroutine only.
type Request struct {
	Sessions *Sessions
	Header   http.Header // of the client, with canonical names
	Who      *auth.Principal
	Token    *auth.Token // nil without a token
	// Start is when the request began, before Keys were read.
	Start time.Time
	// Keys are the current API keys; nil when authentication is off.
	Keys *auth.Keyring
	// Hops is the value of [mcp.HeaderHops] for requests that this request causes.
	Hops    string
	Message *mcp.Message
	Dialect mcp.Dialect
	// View is the view that received the request; nil for the whole gateway.
	View *auth.View

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

	follows  *upstream.Upstream // of the tag that Untag removed
	untagged bool
	rejected bool
	caller   upstream.Caller
}

// Join reads the session handle that the client presents. A handle that was made for another caller, or
// at another view, gets the same response as a handle that never existed, and so does a session whose
// API key has lost the secret that opened it. The revisions without sessions ignore handles. A session
// that the gateway itself has issued has a revision that it serves.
func (r *Request) Join(ctx context.Context) *refusal.Refusal {
	r.ClientInfo = mcp.ClientOf(r.Message)
	text, ok := mcp.Single(r.Header, mcp.HeaderSession)
	if !ok {
		return &refusal.Header
	}
	if text == "" || r.Dialect.Modern || r.Message.Method == mcp.MethodInitialize {
		return nil
	}
	handle, err := r.Sessions.opts.Sealer.Open(text, r.owner(), r.View.Scope())
	if err != nil || !r.Keys.Holds(r.Who, handle.Secret, handle.Opened) || r.Sessions.Ended(ctx, handle) {
		return &refusal.Session
	}
	if v := r.Dialect.Version; r.Sessions.opts.Own && v != "" && !mcp.KnownRevision(v) {
		refused := refusal.Version
		refused.Versions, refused.Requested = mcp.LegacyRevisions(), v
		return &refused
	}
	r.Handle, r.Joined = handle, true
	if r.ClientInfo == (mcp.ClientInfo{}) {
		r.ClientInfo = handle.Client
	}
	return nil
}

// OwnSession reports whether the session of the request does not depend on an upstream: with
// federation the gateway itself has issued it. A response with the status 404 would end it at the client.
func (r *Request) OwnSession() bool { return r.Joined && r.Sessions.opts.Own }

// JoinControl is Join for a GET or DELETE, which need a session where the gateway issues them.
func (r *Request) JoinControl(ctx context.Context) *refusal.Refusal {
	if refused := r.Join(ctx); refused != nil || r.Joined || !r.Sessions.opts.Own {
		return refused
	}
	return &refusal.SessionRequired
}

// Refused returns the form of a refusal for the client.
func (r *Request) Refused(refused *refusal.Refusal) *refusal.Refusal {
	if !r.OwnSession() {
		return refused
	}
	return refused.InSession(r.Message)
}

// InUpstreamSession reports whether a 404 of the upstream means that it has lost the client's session.
func (r *Request) InUpstreamSession() bool { return r.Joined && (r.There.ID != "" || !r.OwnSession()) }

func (r *Request) owner() session.Owner {
	return session.OwnerOf(r.Who.Kind.String(), r.Who.Issuer, r.Who.Value)
}

// Issue returns the Mcp-Session-Id for the client when the upstream up responded with sid: empty without
// a session, the handle that the client already has, or a new one for an initialize.
//
// With one upstream a handle is issued only when the upstream issued a session id; with several upstreams
// always, because any of them may issue one later.
func (r *Request) Issue(ctx context.Context, sid string, up *upstream.Upstream) string {
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
	handle := session.Handle{ID: session.NewID(), Owner: r.owner(), Secret: r.Who.Secret, Opened: r.Start.UnixNano(), Upstream: sid, Client: r.ClientInfo, Params: handleParams(r.Message)}
	text, err := r.Sessions.opts.Sealer.Seal(handle, r.View.Scope())
	if err != nil {
		r.Sessions.opts.Logger.Warn("upstream session id is too long to carry", "upstream", up.Name, "error", err)
		return ""
	}
	r.Sessions.State.Settings.SetParams(ctx, handle.ID, r.Message.Spans.Params.Of(r.Message.Body))
	return text
}

// handleParams are the parameters of an initialize that fit into a handle: parts are left out in
// the order of their importance for the opening of a session, down to none.
func handleParams(m *mcp.Message) string {
	without := func(in []byte, at mcp.Span, names ...string) []byte {
		if !at.Present() || in[at.Start] != '{' {
			return at.Of(in)
		}
		return mcp.AppendObject(nil, in, at, func(name []byte) bool { return slices.Contains(names, string(name)) })
	}
	body, params := m.Body, m.Spans.Params
	if text := params.Of(body); len(text) <= session.MaxHandleParams {
		return string(text)
	}
	// The icons, addresses and descriptions of clients are the longest part.
	info := without(body, mcp.Find(body, params, "clientInfo"), "icons", "websiteUrl", "description", "title")
	able := mcp.Find(body, params, "capabilities")
	known := mcp.AppendObject(nil, body, mcp.Find(body, able, "extensions"), func(name []byte) bool {
		return !slices.Contains([]string{mcp.ExtensionUI, mcp.ExtensionSkills, mcp.ExtensionTasks}, string(name))
	})
	few := mcp.AppendObject(nil, body, able, func(name []byte) bool { return string(name) == "experimental" }, mcp.Member{Name: "extensions", Value: known})
	for _, capabilities := range [][]byte{able.Of(body), without(body, able, "experimental"), few, without(body, able, "experimental", "extensions")} {
		text := mcp.AppendObject(nil, nil, mcp.Span{}, nil,
			mcp.Member{Name: "protocolVersion", Value: mcp.Find(body, params, "protocolVersion").Of(body)},
			mcp.Member{Name: "capabilities", Value: capabilities},
			mcp.Member{Name: "clientInfo", Value: info})
		if len(text) <= session.MaxHandleParams {
			return string(text)
		}
	}
	return ""
}

// Caller is the client of this request in the form that transports use.
func (r *Request) Caller() upstream.Caller {
	return upstream.Caller{Principal: r.Who, Token: r.Token, Header: r.Header, View: r.View, Session: r.Handle.ID, HasSession: r.Joined, Params: r.Handle.Params}
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
func (r *Request) TagFor(t session.Kind) session.Kind {
	if r.Several() {
		return t
	}
	return session.None
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
func (r *Request) Follow(ctx context.Context) *upstream.Upstream {
	s := r.Sessions
	switch {
	case r.follows != nil:
		return r.follows
	case r.Message.Method == mcp.NotificationCancelled && r.Several():
		o := s.inFlight.Origin(ctx, r.Handle.ID, call(r.Message.Spans.RequestID.Of(r.Message.Body)))
		return s.opts.Upstreams[o.Upstream]
	case s.Several():
		if name := s.tasks.Of(ctx, r.Who, r.Message); r.View.Has(name) {
			return s.opts.Upstreams[name]
		}
	}
	return nil
}

// Find finds the session at the upstream that the request is routed to. The errors are the errors of
// [Sessions.Find].
func (r *Request) Find(ctx context.Context, up *upstream.Upstream) (err error) {
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
// restart, the request was not executed, and Send sends it once more in a new session. If that is not
// known either, the client must begin a new one: the error is [session.ErrUnknown]. The other errors are
// those of send and of [Sessions.Reopen].
func (r *Request) Send(ctx context.Context, up *upstream.Upstream, send func(again bool) (*upstream.Response, error)) (*upstream.Response, error) {
	resp, err := send(false)
	if err != nil || !r.Joined || !r.lost(ctx, up, resp) || !r.Sessions.WorthReopening(ctx, r.Handle.ID, r.There) {
		return resp, err
	}
	resp.Body.Close()
	if r.There, err = r.Sessions.Reopen(ctx, r.Client(), up, r.There); err != nil {
		return nil, err
	}
	resp, err = send(true)
	if err == nil && resp.Status == http.StatusBadRequest && r.lost(ctx, up, resp) {
		resp.Body.Close()
		return nil, session.ErrUnknown
	}
	return resp, err
}

// lost reports whether the upstream does not know the session of the request. Servers report this with
// 404, some with 400; both have other causes too. 400 is accepted only if the response names the session,
// 404 at once if it has no answer to a request; otherwise a ping in the session must be rejected as well.
// If the session is known, a 404 is the answer of a server that has executed the request, which is not sent
// again.
func (r *Request) lost(ctx context.Context, up *upstream.Upstream, resp *upstream.Response) bool {
	notFound := resp.Status == http.StatusNotFound
	switch {
	case r.There.ID == "":
		return notFound
	case notFound && !translate.MayAnswer(resp):
		return true
	case !notFound && (resp.Status != http.StatusBadRequest || !translate.SessionLost(resp, r.There)):
		return false
	}
	return !r.Sessions.alive(ctx, r.Client(), up, r.SessionAt(r.There))
}

// Track records the upstream of the request until Untrack, so that its cancellation can be routed, or in
// any session if labeled is set, because data flow judges the cancellation as the call; false when
// nothing needs to be recorded.
func (r *Request) Track(ctx context.Context, up *upstream.Upstream, labeled bool) bool {
	if r.Message.Kind != mcp.Request || !r.Joined || !labeled && (!r.Several() || up.Name == r.Sessions.opts.Default) {
		return false
	}
	o := session.Origin{Upstream: up.Name}
	if labeled {
		o = OriginOf(up.Name, r.Message).Detach()
	}
	r.Sessions.inFlight.Add(ctx, r.Handle.ID, call(r.Message.ID), o)
	return true
}

// Untrack removes the record of Track. It is not called when the client disconnected first: the upstream
// may still work on the request, and the client may still cancel it.
func (r *Request) Untrack(ctx context.Context) {
	r.Sessions.inFlight.Remove(ctx, r.Handle.ID, call(r.Message.ID))
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
