package session

import (
	"context"
	"errors"
	"strings"

	"svc/gateway/mcp"
)

// UpstreamSession is the gateway's session at one upstream for a client. An empty version
// means the client's own.
type UpstreamSession = mcp.Session

// ownPrefix is the prefix of the ids of sessions that the gateway creates itself, for
// upstreams whose revision has no sessions.
const ownPrefix = "svc-2026-07-28."

// OwnID returns the id of a session that the gateway creates itself, containing text.
func OwnID(text string) string { return ownPrefix + text }

// CutOwn returns the text in the id of a session that the gateway created itself; false
// for the id of an upstream.
func CutOwn(id string) (text string, ok bool) { return strings.CutPrefix(id, ownPrefix) }

// OpenFunc opens a session at an upstream.
type OpenFunc func(ctx context.Context) (UpstreamSession, error)

// UpstreamSessions stores, for each session of a client, the upstream sessions that the
// gateway opened for it: at upstreams other than the default one, and at the default one
// when it lost the session in the handle. Implementations are safe for concurrent use,
// and bounded. Losing an upstream session is never fatal: the session is opened again.
//
// The store that replicas share may be unavailable. Then the state of this process is
// used, and the error for state that only other replicas may have is ErrUnavailable.
type UpstreamSessions interface {
	// Session returns the session at an upstream, and calls open when there is none.
	// Concurrent calls for one upstream session call open once; the error of a failed
	// open is returned to all waiting callers, and is not stored. The error is ErrUnknown
	// when the client's session has ended; a session that was opened meanwhile is
	// returned with it, for the caller to close. Call Ended first.
	Session(ctx context.Context, id ID, upstream string, open OpenFunc) (UpstreamSession, error)
	// Known returns the session at an upstream if this process knows it, without reading
	// the shared store.
	Known(id ID, upstream string) (opened UpstreamSession, ok bool)
	// Forget removes the upstream session if it is still the given one
	// (compare-and-delete), so that a late error of an old session cannot close its
	// successor. The next call of Session opens another.
	Forget(ctx context.Context, id ID, upstream string, lost UpstreamSession)
	// All returns the open upstream sessions by upstream.
	All(ctx context.Context, id ID) map[string]UpstreamSession
	// End ends the session and returns its open upstream sessions. The end is remembered
	// within the limit of stored sessions.
	End(ctx context.Context, id ID) map[string]UpstreamSession
	// Ended reports whether End was called, here or at another replica.
	Ended(ctx context.Context, id ID) bool
}

// ClientSettings stores a client's settings for upstream sessions that are opened later.
// They end with the session.
type ClientSettings interface {
	// SetParams stores the parameters of the client's initialize, which are used to open
	// upstream sessions.
	SetParams(ctx context.Context, id ID, params []byte)
	// Params returns the stored parameters; nil when they are unknown. The error is
	// ErrUnavailable when only the shared store could have them.
	Params(ctx context.Context, id ID) ([]byte, error)
	// SetLevel stores the parameters of the client's last logging/setLevel, which is
	// repeated at upstream sessions that are opened later.
	SetLevel(ctx context.Context, id ID, params []byte)
	// Level returns the stored parameters of logging/setLevel; nil when there are none.
	Level(ctx context.Context, id ID) []byte
}

// State is the stored state of the sessions of clients.
type State struct {
	Upstream UpstreamSessions
	Settings ClientSettings
}

// ErrUnavailable is returned when the answer requires the store that replicas share, and
// it did not respond.
var ErrUnavailable = errors.New("session store is unavailable")
