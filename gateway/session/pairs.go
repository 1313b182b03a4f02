package session

import (
	"context"
	"errors"

	"svc/gateway/mcp"
)

// UpstreamSession is the session that the gateway has at one upstream for a client. An
// empty version leaves the client's own.
type UpstreamSession = mcp.Session

// OpenFunc opens a session at an upstream.
type OpenFunc func(ctx context.Context) (UpstreamSession, error)

// Pairs keeps, for each session of a client, the sessions that the gateway
// opened for it: at upstreams other than the default one, and at that one when it
// lost the session that its handle names. Implementations are
// safe for concurrent use, and bounded. Losing a pair is never fatal: the session
// is opened again.
//
// What replicas share may be out of reach. Then what this process knows itself
// stands, and what only the others can know is ErrUnavailable.
type Pairs interface {
	// Session returns the session at an upstream, and calls open when there
	// is none. Concurrent calls for one pair open it once; a failed open is
	// returned to all who waited, and is not kept. The error is ErrUnknown when
	// the client's session has ended; beside it stands, for the caller to close,
	// what its own open had opened meanwhile. Ask Ended first.
	Session(ctx context.Context, id ID, upstream string, open OpenFunc) (UpstreamSession, error)
	// Known returns the session at an upstream as far as this process knows it,
	// without asking anybody.
	Known(id ID, upstream string) (opened UpstreamSession, ok bool)
	// Forget drops one pair, so that the next call opens it again; but only
	// while it still is lost, so that a late complaint about an old session
	// does not close a new one.
	Forget(ctx context.Context, id ID, upstream string, lost UpstreamSession)
	// All returns the open pairs by upstream.
	All(ctx context.Context, id ID) map[string]UpstreamSession
	// SetParams keeps the client's own initialize parameters, with which
	// later sessions are opened.
	SetParams(ctx context.Context, id ID, params []byte)
	// Params returns what SetParams kept; nil when it is no longer known. The
	// error is ErrUnavailable when that cannot be told.
	Params(ctx context.Context, id ID) ([]byte, error)
	// SetLevel keeps the parameters of the client's last logging/setLevel, which
	// sessions that are opened later are told too.
	SetLevel(ctx context.Context, id ID, params []byte)
	// Level returns what SetLevel kept; nil when there is none.
	Level(ctx context.Context, id ID) []byte
	// End forgets the session and returns what was open. That it ended is
	// remembered, as long as there is room.
	End(ctx context.Context, id ID) map[string]UpstreamSession
	// Ended reports whether End was called, here or at another replica.
	Ended(ctx context.Context, id ID) bool
}

// ErrUnavailable is the error of a question that only the store of all replicas
// can answer, and that it did not.
var ErrUnavailable = errors.New("session store is unavailable")
