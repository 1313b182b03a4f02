package multiplex

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"svc/gateway/base/background"
	"svc/gateway/mcp"
	"svc/gateway/session"
	"svc/gateway/upstream"
	"svc/gateway/upstream/client"
)

// openTimeout bounds the opening of a session at an upstream on behalf of a
// client.
const openTimeout = 30 * time.Second

// streamWait bounds the wait for the standalone stream of a session that was just opened, before
// the first message to it.
const streamWait = time.Second

// maxInitialize bounds an upstream's response to the gateway's own initialize, in bytes.
const maxInitialize = 1 << 20

// Options are the dependencies and settings of sessions.
type Options struct {
	// Upstreams are the upstreams by name.
	Upstreams map[string]*upstream.Upstream
	// Default is the name of the upstream whose session is in the client's handle.
	Default string
	// Own is set if the gateway itself is the default upstream, and issues the sessions.
	Own bool
	// Joined is called after a session was opened at an upstream for a client. The channel is
	// closed when the upstream has answered the request for the session's standalone stream;
	// nil if the client has none.
	Joined func(id session.ID, up *upstream.Upstream, opened mcp.Session) <-chan struct{}
	// Background runs calls that a request does not wait for.
	Background *background.Calls
	// Version is the gateway's own version, for the clientInfo of sessions whose clients
	// are no longer known.
	Version string
	// Sealer makes and reads the handles of sessions.
	Sealer *session.Sealer
	Logger *slog.Logger
}

// Sessions are the sessions of clients at upstreams. It is safe for concurrent use.
type Sessions struct {
	opts Options
	// State is set before the first request.
	State session.State
	// Replicated is set where several gateways share State.
	Replicated bool
	// reopened is set once a lost session at the default upstream was opened again: until
	// then the state is not queried for a session there.
	reopened atomic.Bool

	inFlight  *InFlight // requests of clients
	questions *InFlight // of upstreams, in sessions
	tasks     *session.Tasks
	pending   pending
}

// New returns sessions without a state.
func New(opts Options) *Sessions { return &Sessions{opts: opts} }

// Client is a client's session, as seen by one of its requests.
type Client struct {
	Handle session.Handle
	// Version is the protocol revision of the request.
	Version string
	// Hops is the value of [mcp.HeaderHops] for requests that the request causes.
	Hops string
	// Caller is the client in the form that transports use.
	Caller *upstream.Caller
}

// Several reports whether a session has more than one upstream.
func (s *Sessions) Several() bool { return len(s.opts.Upstreams) > 1 }

// Ended reports whether a session was ended, for sessions with several upstreams, each of
// which except the default one would open a new session, and for sessions that the gateway
// issued for an upstream without sessions. Any other session of a single upstream is
// checked by that upstream.
func (s *Sessions) Ended(ctx context.Context, handle session.Handle) bool {
	_, own := session.CutOwn(handle.Upstream)
	return (own || s.Several()) && s.State.Upstream.Ended(ctx, handle.ID)
}

// Find returns the client's session at an upstream: at the default upstream the one in the
// handle, unless it was lost; at any other upstream a session that is opened on first use.
// The errors are [session.ErrUnknown] when the client must begin a new session,
// [session.ErrUnavailable], and the errors of the upstream and of package client.
func (s *Sessions) Find(ctx context.Context, c Client, up *upstream.Upstream) (mcp.Session, error) {
	if up.Name != s.opts.Default {
		return s.open(ctx, c, up)
	}
	if s.reopened.Load() {
		if opened, ok := s.State.Upstream.Known(c.Handle.ID, up.Name); ok {
			return opened, nil
		}
	}
	return mcp.Session{ID: c.Handle.Upstream, Version: c.Version}, nil
}

// open finds the session that the gateway opened at the upstream for the client, or opens
// one.
func (s *Sessions) open(ctx context.Context, c Client, up *upstream.Upstream) (mcp.Session, error) {
	id := c.Handle.ID
	var level []byte // the log level that was sent to a session opened here
	fresh, waited := false, false
	opened, err := s.State.Upstream.Session(ctx, id, up.Name, func(ctx context.Context) (mcp.Session, error) {
		opened, err := s.initialize(ctx, c, up)
		if err == nil {
			level, fresh = s.State.Settings.Level(ctx, id), true
			s.replayLogLevel(ctx, c, up, opened, level)
			waited = s.awaitStream(ctx, id, up, opened)
		}
		return opened, err
	})
	switch {
	case errors.Is(err, session.ErrUnknown):
		s.closeOne(up, opened) // the client's session ended while this one was being opened
		return mcp.Session{}, err
	case err != nil && !errors.Is(err, session.ErrUnavailable) && up.Name == s.opts.Default && !errors.As(err, new(*upstream.Error)) && ctx.Err() == nil:
		// The default upstream does not accept the client's first initialize: the client
		// must begin a new session.
		return mcp.Session{}, session.ErrUnknown
	case err != nil:
		return mcp.Session{}, err
	}
	if fresh {
		// The client's stream may have begun before the session was stored, and the session may
		// be the one that another replica opened meanwhile.
		if waited {
			s.opts.Joined(id, up, opened)
		} else {
			s.awaitStream(ctx, id, up, opened)
		}
		// A level that was set while this session was being opened.
		if now := s.State.Settings.Level(ctx, id); !bytes.Equal(now, level) {
			s.replayLogLevel(ctx, c, up, opened, now)
		}
	}
	return opened, nil
}

// awaitStream attaches a session to the client's standalone stream and waits until the upstream
// has answered the request for its part: servers drop a question that they send on that stream
// while it is not open, and the call that asks never ends. Goroutines that wait for the same
// session wait for this too. It returns false at once if the client has no such stream.
func (s *Sessions) awaitStream(ctx context.Context, id session.ID, up *upstream.Upstream, opened mcp.Session) bool {
	answered := s.opts.Joined(id, up, opened)
	if answered == nil {
		return false
	}
	wait := time.NewTimer(streamWait)
	defer wait.Stop()
	select {
	case <-answered:
	case <-wait.C:
	case <-ctx.Done():
	}
	return true
}

// initialize opens a session at an upstream, with the initialize parameters of the client: the
// stored ones, else those of its handle, which are not lost at a restart, else minimal ones.
func (s *Sessions) initialize(ctx context.Context, c Client, up *upstream.Upstream) (mcp.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout+up.StartTimeout)
	defer cancel()
	params, err := s.State.Settings.Params(ctx, c.Handle.ID)
	if err != nil {
		return mcp.Session{}, err
	}
	if params == nil {
		params = []byte(c.Handle.Params)
	}
	if len(params) == 0 {
		version := c.Version
		if version == "" {
			version = mcp.Revision20250618
		}
		params = append([]byte(`{"protocolVersion":`), mcp.AppendString(nil, version)...)
		params = append(params, `,"capabilities":{},"clientInfo":{"name":"svc","version":`...)
		params = append(mcp.AppendString(params, s.opts.Version), "}}"...)
	}
	asking := client.Client{Transport: up.Transport, Name: "svc-initialize", Hops: c.Hops, Caller: c.Caller}
	opened, _, err := asking.Initialize(ctx, params, maxInitialize)
	return opened, err
}

// replayLogLevel repeats the client's last logging/setLevel at a session that was just
// opened.
func (s *Sessions) replayLogLevel(ctx context.Context, c Client, up *upstream.Upstream, opened mcp.Session, params []byte) {
	if params == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	asking := client.Client{Transport: up.Transport, Name: "svc-level", Hops: c.Hops, Caller: c.Caller}
	_ = asking.SetLevel(ctx, opened, params) // an error means that the upstream has no log messages, so there is nothing to set
}

// WorthReopening reports whether a session that its upstream does not know, as after a
// restart, is to be opened again: the client still uses its handle.
func (s *Sessions) WorthReopening(ctx context.Context, id session.ID, lost mcp.Session) bool {
	return lost.ID != "" && !s.State.Upstream.Ended(ctx, id)
}

// alive reports whether an upstream may know a session.
func (s *Sessions) alive(ctx context.Context, c Client, up *upstream.Upstream, at mcp.Session) bool {
	asking := client.Client{Transport: up.Transport, Name: "svc-ping", Hops: c.Hops, Caller: c.Caller}
	return asking.Alive(ctx, at)
}

// Reopen opens a session again that its upstream has lost. The errors are the errors of
// Find.
func (s *Sessions) Reopen(ctx context.Context, c Client, up *upstream.Upstream, lost mcp.Session) (mcp.Session, error) {
	s.State.Upstream.Forget(ctx, c.Handle.ID, up.Name, lost)
	opened, err := s.open(ctx, c, up)
	if err == nil && up.Name == s.opts.Default {
		s.reopened.Store(true)
	}
	return opened, err
}

// End ends a client's session at all upstreams except the one whose session the client's
// own request has ended.
func (s *Sessions) End(ctx context.Context, id session.ID, except *upstream.Upstream) {
	open := s.State.Upstream.End(ctx, id)
	delete(open, except.Name)
	s.Discard(open)
}

// Discard ends upstream sessions, given by upstream name, in the background.
func (s *Sessions) Discard(open map[string]mcp.Session) {
	for name, opened := range open {
		if up, ok := s.opts.Upstreams[name]; ok {
			s.closeOne(up, opened)
		}
	}
}

func (s *Sessions) closeOne(up *upstream.Upstream, opened mcp.Session) {
	if opened.ID == "" {
		return
	}
	asking := client.Client{Transport: up.Transport}
	if !s.opts.Background.Run(func(ctx context.Context) { asking.End(ctx, opened) }) {
		s.opts.Logger.Warn("a session at an upstream was not ended: too many background calls", "upstream", up.Name)
	}
}
