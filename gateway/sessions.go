package gateway

import (
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"svc/gateway/affinity"
	"svc/gateway/config"
	"svc/gateway/headers"
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/tag"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// openSessions opens the memory of the sessions that the gateway opens for clients:
// shared by replicas where they share their rate limits, else in this process,
// with what ended written down.
func (g *Gateway) openSessions(cfg *config.File) {
	g.sessions = multiplex.New(multiplex.Options{
		Upstreams: g.targets, Default: g.defaultUpstream, Background: g.background, Version: g.version, Logger: g.log,
		Joined: g.merged.Attach,
	})
	if len(g.targets) > 1 {
		g.tasks = &affinity.Tasks{Map: g.taskMap(cfg.TaskAffinity)}
		g.inFlight = multiplex.NewInFlight(g.now)
	}
	if g.redis != nil {
		shared := session.NewShared(maxSessions, g.redis.Records(), g.sealer, g.sessions.Close)
		g.sessions.State, g.sessions.Replicated = session.State{Upstream: shared, Settings: shared}, true
		return
	}
	durable, err := session.OpenDurable(filepath.Join(cfg.StateDirectory(), "sessions.ended"), maxSessions, g.sessions.Close, g.log)
	if err == nil {
		g.sessions.State = session.State{Upstream: durable, Settings: durable}
		return
	}
	g.log.Warn("sessions that clients end are forgotten at a restart: their handles could be used again", "error", err)
	memory := session.NewMemory(maxSessions, g.sessions.Close)
	g.sessions.State = session.State{Upstream: memory, Settings: memory}
}

// taskMap makes the map of tasks. Replicas share it where they share their rate
// limits.
func (g *Gateway) taskMap(cfg config.TaskAffinity) affinity.Map {
	local := affinity.NewMemory(cfg.MaxEntries, cfg.TTL, g.now)
	if g.redis == nil {
		return local
	}
	return affinity.NewShared(local, g.redis, cfg.TTL)
}

// client is the client's session as the sessions at upstreams are found by it.
func (ex *exchange) client() multiplex.Client {
	ex.caller = ex.transportCaller()
	return multiplex.Client{Handle: ex.handle, Version: ex.dialect.Version, Hops: ex.hops, Caller: &ex.caller}
}

// transportCaller is the client of this request as transports know it.
func (ex *exchange) transportCaller() transport.Caller {
	return transport.Caller{Principal: &ex.who.Principal, Token: ex.who.Token, Header: ex.r.Header, Session: ex.handle.ID, HasSession: ex.hasHandle}
}

// openSession reads the session handle that the client presents. A handle that
// was not made for this caller is answered like one that never was.
func (ex *exchange) openSession() *refusal.Refusal {
	text, ok := headers.Single(ex.r.Header, mcp.HeaderSession)
	if !ok {
		return &refusal.Header
	}
	// The revision without sessions ignores an inbound session id, and never makes one.
	if text == "" || ex.dialect.Modern || ex.msg.Method == mcp.MethodInitialize {
		return nil
	}
	handle, err := ex.g.sealer.Open(text, ex.owner())
	if err != nil || ex.g.sessions.Ended(ex.ctx, handle.ID) {
		return &refusal.Session
	}
	ex.handle, ex.hasHandle = handle, true
	return nil
}

func (ex *exchange) owner() session.Owner {
	return session.OwnerOf(ex.who.Kind.String(), ex.who.Issuer, ex.who.Value)
}

// clientSession returns the Mcp-Session-Id that the client sees when the
// upstream answered with sid: nothing where there is no session, the handle
// that the client already holds, or a new one for an initialize.
//
// With one upstream a handle is made only when the upstream made a session;
// with several always, because any of the others may want one.
func (ex *exchange) clientSession(sid string) string {
	if ex.dialect.Modern {
		return ""
	}
	if ex.msg.Method != mcp.MethodInitialize {
		if sid != "" && ex.hasHandle {
			return ex.r.Header.Get(mcp.HeaderSession)
		}
		return ""
	}
	if sid == "" && !ex.g.sessions.Several() {
		return ""
	}
	handle := session.Handle{ID: session.NewID(), Owner: ex.owner(), Upstream: sid}
	text, err := ex.g.sealer.Seal(handle)
	if err != nil {
		ex.g.log.Warn("upstream session id is too long to carry", "upstream", ex.up.Name, "error", err)
		return ""
	}
	ex.g.sessions.State.Settings.SetParams(ex.ctx, handle.ID, ex.msg.Spans.Params.Of(ex.msg.Body))
	return text
}

// upstreamSession finds the session at the upstream that the request is routed to.
func (ex *exchange) upstreamSession() (refused *refusal.Refusal) {
	if ex.hasHandle {
		opened, err := ex.g.sessions.Find(ex.ctx, ex.client(), ex.up)
		ex.upSession, refused = opened, ex.refuseSession(err)
	}
	return refused
}

// refuseSession turns a failed search for a session at an upstream into its answer.
func (ex *exchange) refuseSession(err error) *refusal.Refusal {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, session.ErrUnknown):
		return &refusal.Session
	case errors.Is(err, session.ErrUnavailable):
		return refusal.SessionStore.After(time.Second)
	}
	return ex.refuseUpstream(err)
}

// inSession sends a request to the upstream, and once more in another session where
// the upstream answers that it no longer knows its session, as after a restart.
// Nothing was executed then.
func (ex *exchange) inSession(send func(again bool) (*upstream.Response, error)) (*upstream.Response, *refusal.Refusal) {
	ex.sentUp = ex.now()
	resp, err := send(false)
	if err == nil && resp.Status == http.StatusNotFound && ex.hasHandle && ex.g.sessions.WorthReopening(ex.ctx, ex.handle.ID, ex.upSession) {
		resp.Body.Close()
		if ex.upSession, err = ex.g.sessions.Reopen(ex.ctx, ex.client(), ex.up, ex.upSession); err != nil {
			return nil, ex.refuseSession(err)
		}
		resp, err = send(true)
	}
	if err != nil {
		return nil, ex.refuseUpstream(err)
	}
	return resp, nil
}

// tagFor returns the tag of a stream of this exchange: none where the session
// has one upstream.
func (ex *exchange) tagFor(t tag.Kind) tag.Kind {
	if ex.hasHandle && ex.g.sessions.Several() {
		return t
	}
	return tag.None
}

// untag finds the upstream of a client's answer to a server request, or of the
// progress of one, and removes the tag. It runs before the rules, so that they
// judge the message that is sent.
func (ex *exchange) untag() *refusal.Refusal {
	ex.untagged = true
	if ex.tagFor(tag.Post) == tag.None {
		return nil
	}
	var err error
	if ex.follows, ex.unknown, err = ex.g.sessions.Untag(&ex.msg); err != nil {
		return refusal.OfMessage(err)
	}
	return nil
}

// discard acknowledges a message that refers to something that was never issued.
// An upstream would ignore it too, like an answer that comes too late.
func (ex *exchange) discard() *refusal.Refusal {
	ex.rec.ErrorKind = ex.unknown.Kind
	if err := ex.account(ex.unknown.Status, 0); err != nil {
		return &refusal.Audit
	}
	ex.w.WriteHeader(ex.unknown.Status)
	return nil
}

// follow finds the upstream of a client's message that belongs to one before it:
// what untag found, where the request runs that is canceled, or where the task is that
// the message asks about. Without a trace of the one before it is nil.
func (ex *exchange) follow() *transport.Upstream {
	switch {
	case ex.follows != nil:
		return ex.follows
	case ex.msg.Method == mcp.NotificationCancelled && ex.tagFor(tag.Post) != tag.None:
		name, _ := ex.g.inFlight.Upstream(ex.ctx, ex.handle.ID, ex.msg.Spans.RequestID.Of(ex.msg.Body))
		return ex.g.targets[name]
	case ex.g.tasks != nil:
		return ex.g.targets[ex.g.tasks.Of(ex.ctx, &ex.who.Principal, &ex.msg)]
	}
	return nil
}

// trackInFlight remembers where the request is until the response, so that its
// cancellation can be routed. The returned function ends that, except when the client
// disconnected first: the upstream may still work on it, and the client cancel it then.
func (ex *exchange) trackInFlight() func() {
	if ex.msg.Kind != mcp.Request || ex.tagFor(tag.Post) == tag.None || ex.up.Name == ex.g.defaultUpstream {
		return func() {}
	}
	ex.g.inFlight.Add(ex.ctx, ex.handle.ID, ex.msg.ID, ex.up.Name)
	return func() {
		if !ex.unanswered && ex.ctx.Err() == nil {
			ex.g.inFlight.Remove(ex.ctx, ex.handle.ID, ex.msg.ID)
		}
	}
}

// rejectStopped answers a server's request in the place of the client, whose answer
// to it was refused, whatever refused it: the call that it belongs to would wait for
// the answer for ever. It does nothing for callers who were not identified, and
// nothing once the answer was sent.
func (ex *exchange) rejectStopped(refused *refusal.Refusal) {
	sent := !ex.sentUp.IsZero() && refused != &refusal.Header // which the upstream client found before it sent anything
	if ex.rejected || !ex.identified || sent || ex.msg.Kind != mcp.Response || len(ex.msg.ID) == 0 {
		return
	}
	ex.rejected = true
	if !ex.untagged && (ex.openSession() != nil || ex.untag() != nil) {
		return // it was refused before its session was opened, and has none
	}
	t := ex.follow()
	if t == nil {
		t = ex.g.targets[ex.g.defaultUpstream]
	}
	if ex.unknown != nil || t == nil {
		return
	}
	code, message := refused.Code, refused.Message
	if code != mcp.CodePolicyDenied {
		code = mcp.CodeInternal // the other codes are about the client and its HTTP request
	}
	id := ex.rec.RequestID
	client := ex.client()
	if !ex.g.versions.Allows(ex.dialect) {
		client.Version = ""
	}
	where := multiplex.Always(mcp.Session{Version: client.Version})
	if ex.hasHandle {
		where = ex.g.sessions.Existing(client, t)
	}
	ex.g.sessions.Reject(t, multiplex.Rejection{
		RequestID: id, Hops: ex.hops, Caller: client.Caller,
		Body:    mcp.AppendError(nil, ex.msg.ID, code, message, refused.Reason, id),
		Session: where,
	})
}
