package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/mcpclient"
	"svc/gateway/refusal"
	"svc/gateway/session"
	"svc/gateway/transport"
	"svc/gateway/upstream"
)

// openTimeout bounds the opening of a session at an upstream on behalf of a
// client.
const openTimeout = 30 * time.Second

// maxInitialize bounds the answer of an upstream to the gateway's own initialize,
// in bytes.
const maxInitialize = 1 << 20

// openPairs opens the memory of the sessions that the gateway opens for clients:
// shared by replicas where they share their rate limits, else in this process,
// with what ended written down.
func (g *Gateway) openPairs(cfg *config.File) {
	if g.redis != nil {
		g.shared = true
		g.pairs = session.NewShared(maxSessions, g.redis.Records(), g.sealer, g.closePairs)
		return
	}
	durable, err := session.OpenDurable(filepath.Join(cfg.StateDirectory(), "sessions.ended"), maxSessions, g.closePairs, g.log)
	if err == nil {
		g.pairs = durable
		return
	}
	g.log.Warn("sessions that clients end are forgotten at a restart: their handles could be used again", "error", err)
	g.pairs = session.NewMemory(maxSessions, g.closePairs)
}

// openSession reads the session handle that the client presents. A handle that
// was not made for this caller is answered like one that never was.
func (ex *exchange) openSession() *refusal.Refusal {
	text, ok := single(ex.r.Header, mcp.HeaderSession)
	if !ok {
		return &refusal.Header
	}
	// The revision without sessions ignores an inbound session id, and never makes one.
	if text == "" || ex.dialect.Modern || ex.msg.Method == mcp.MethodInitialize {
		return nil
	}
	handle, err := ex.g.sealer.Open(text, ex.owner())
	if err != nil {
		return &refusal.Session
	}
	if len(ex.g.targets) > 1 && ex.g.pairs.Ended(ex.ctx, handle.ID) {
		return &refusal.Session // each of the other upstreams would begin a new one
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
	if sid == "" && len(ex.g.targets) == 1 {
		return ""
	}
	handle := session.Handle{ID: session.NewID(), Owner: ex.owner(), Upstream: sid}
	text, err := ex.g.sealer.Seal(handle)
	if err != nil {
		ex.g.log.Warn("upstream session id is too long to carry", "upstream", ex.up.Name, "error", err)
		return ""
	}
	ex.g.pairs.SetParams(ex.ctx, handle.ID, ex.msg.Spans.Params.Of(ex.msg.Body))
	return text
}

// upstreamSession finds the session at the upstream that the request is routed
// to: the one in the handle for the default upstream, unless that was lost; a pair
// that is opened when it is first needed for any other.
func (ex *exchange) upstreamSession() *refusal.Refusal {
	switch {
	case !ex.hasHandle:
		return nil
	case ex.up.Name == ex.g.defaultUpstream:
		ex.upSession = session.UpstreamSession{ID: ex.handle.Upstream, Version: ex.dialect.Version}
		if ex.g.reopened.Load() {
			if opened, ok := ex.g.pairs.Known(ex.handle.ID, ex.up.Name); ok {
				ex.upSession = opened
			}
		}
		return nil
	}
	return ex.openedSession()
}

// openedSession finds the session that the gateway opened at the upstream for
// the client, and opens it when there is none.
func (ex *exchange) openedSession() *refusal.Refusal {
	var told []byte // the level of logs that a session opened here was told
	fresh := false
	opened, err := ex.g.pairs.Session(ex.ctx, ex.handle.ID, ex.up.Name, func(ctx context.Context) (session.UpstreamSession, error) {
		opened, err := ex.openPair(ctx)
		if err == nil {
			told, fresh = ex.g.pairs.Level(ctx, ex.handle.ID), true
			replayLogLevel(ctx, ex.up, ex.hops, opened, told)
		}
		return opened, err
	})
	if errors.Is(err, session.ErrUnknown) {
		ex.g.closeSession(ex.up, opened) // it ended while this one was being opened
		return &refusal.Session
	}
	if errors.Is(err, session.ErrUnavailable) {
		return refusal.SessionStore.After(time.Second)
	}
	if err != nil {
		return ex.refuseOpening(err)
	}
	if fresh {
		ex.g.standings.join(ex.handle.ID, ex.up, opened)
		// One that was set while nobody knew of this session.
		if level := ex.g.pairs.Level(ex.ctx, ex.handle.ID); !bytes.Equal(level, told) {
			replayLogLevel(ex.ctx, ex.up, ex.hops, opened, level)
		}
	}
	ex.upSession = opened
	return nil
}

// refuseOpening turns a failed opening of a session into its answer. Where the
// session of the default upstream cannot be opened again, because the upstream
// does not take what the client's first initialize asked for, the client begins a
// new one.
func (ex *exchange) refuseOpening(err error) *refusal.Refusal {
	if ex.up.Name == ex.g.defaultUpstream && !errors.As(err, new(*upstream.Error)) && ex.ctx.Err() == nil {
		return &refusal.Session
	}
	return ex.refuseUpstream(err)
}

// sessionLost reports whether the upstream answered that it no longer knows a
// session, as after a restart, and the session is worth opening again: the
// client still holds its handle.
func (ex *exchange) sessionLost(resp *upstream.Response) bool {
	return resp.Status == http.StatusNotFound && ex.hasHandle && ex.upSession.ID != "" &&
		!ex.g.pairs.Ended(ex.ctx, ex.handle.ID)
}

// reopenSession opens the session of this request at its upstream again. Nothing
// was executed.
func (ex *exchange) reopenSession() *refusal.Refusal {
	ex.g.pairs.Forget(ex.ctx, ex.handle.ID, ex.up.Name, ex.upSession)
	refused := ex.openedSession()
	if refused == nil && ex.up.Name == ex.g.defaultUpstream {
		ex.g.reopened.Store(true)
	}
	return refused
}

// openPair opens a session at the request's upstream, with the initialize
// parameters of the client while they are known, else with minimal ones.
func (ex *exchange) openPair(ctx context.Context) (session.UpstreamSession, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	params, err := ex.g.pairs.Params(ctx, ex.handle.ID)
	if err != nil {
		return session.UpstreamSession{}, err
	}
	if params == nil {
		version := ex.dialect.Version
		if version == "" {
			version = mcp.Revision20250618
		}
		params = append([]byte(`{"protocolVersion":`), mcp.AppendString(nil, version)...)
		params = append(params, `,"capabilities":{},"clientInfo":{"name":"svc","version":`...)
		params = append(mcp.AppendString(params, ex.g.version), "}}"...)
	}
	caller := ex.transportCaller()
	client := mcpclient.Client{Transport: ex.up.Transport, Name: "svc-initialize", Hops: ex.hops, Caller: &caller}
	opened, _, err := client.Initialize(ctx, params, maxInitialize)
	return opened, err
}

// closeSession ends a session that the gateway opened at an upstream.
func (g *Gateway) closeSession(t *transport.Upstream, opened session.UpstreamSession) {
	if opened.ID == "" {
		return
	}
	client := mcpclient.Client{Transport: t.Transport}
	ran := g.background.Run(func(ctx context.Context) { client.End(ctx, opened) })
	if !ran {
		g.log.Warn("a session at an upstream was not ended: too many background calls", "upstream", t.Name)
	}
}
