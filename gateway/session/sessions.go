package session

import (
	"context"
	"errors"
	"strings"

	"svc/gateway/mcp"
)

// UpstreamSession is the session that the gateway has at one upstream for a client. An
// empty version leaves the client's own.
type UpstreamSession = mcp.Session

// ownPrefix begins the ids of sessions that the gateway makes itself, in the place of an
// upstream whose revision has none.
const ownPrefix = "svc-2026-07-28."

// OwnID returns the id of a session that the gateway makes itself. text is what it holds.
func OwnID(text string) string { return ownPrefix + text }

// CutOwn returns what the id of a session holds that the gateway made itself; false for
// the id of an upstream.
func CutOwn(id string) (text string, ok bool) { return strings.CutPrefix(id, ownPrefix) }

// OpenFunc opens a session at an upstream.
type OpenFunc func(ctx context.Context) (UpstreamSession, error)

// UpstreamSessions keeps, for each session of a client, the sessions that the gateway
// opened for it: at upstreams other than the default one, and at that one when it
// lost the session that its handle names. Implementations are
// safe for concurrent use, and bounded. Losing an upstream session is never fatal: the
// session is opened again.
//
// The state that replicas share may be unavailable. Then what this process knows
// itself holds, and what only the others can know is ErrUnavailable.
type UpstreamSessions interface {
	// Session returns the session at an upstream, and calls open when there
	// is none. Concurrent calls for one upstream session open it once; a failed open
	// is returned to all who waited, and is not kept. The error is ErrUnknown when
	// the client's session has ended; what open had opened meanwhile is returned beside
	// it, for the caller to close. Ask Ended first.
	Session(ctx context.Context, id ID, upstream string, open OpenFunc) (UpstreamSession, error)
	// Known returns the session at an upstream as far as this process knows it,
	// without asking the shared store.
	Known(id ID, upstream string) (opened UpstreamSession, ok bool)
	// Forget removes the upstream session if it is still the given one
	// (compare-and-delete), so that a late error of an old session cannot close its
	// successor. The next call of Session opens another.
	Forget(ctx context.Context, id ID, upstream string, lost UpstreamSession)
	// All returns the open upstream sessions by upstream.
	All(ctx context.Context, id ID) map[string]UpstreamSession
	// End forgets the session and returns what was open. That it ended is
	// remembered, as long as there is room.
	End(ctx context.Context, id ID) map[string]UpstreamSession
	// Ended reports whether End was called, here or at another replica.
	Ended(ctx context.Context, id ID) bool
}

// ClientSettings keeps what a client asked for in its session, for the upstream
// sessions that are opened later. It ends with the session.
type ClientSettings interface {
	// SetParams keeps the parameters of the client's initialize, with which upstream
	// sessions are opened.
	SetParams(ctx context.Context, id ID, params []byte)
	// Params returns what SetParams kept; nil when it is no longer known. The
	// error is ErrUnavailable when only the shared store could know.
	Params(ctx context.Context, id ID) ([]byte, error)
	// SetLevel keeps the parameters of the client's last logging/setLevel, which is
	// repeated at upstream sessions that are opened later.
	SetLevel(ctx context.Context, id ID, params []byte)
	// Level returns what SetLevel kept; nil when there is none.
	Level(ctx context.Context, id ID) []byte
}

// State is all that is kept of the sessions of clients.
type State struct {
	Upstream UpstreamSessions
	Settings ClientSettings
}

// ErrUnavailable is the error of a question that only the store of all replicas
// can answer, and that it did not.
var ErrUnavailable = errors.New("session store is unavailable")
