package store

import (
	"context"
	"time"
)

// Bounds on the sessions of browsers.
const (
	// SessionLasts is how long a session lasts.
	SessionLasts = 12 * time.Hour
	// MaxKeySessions bounds the sessions of a key: the one that was not used for the longest time gives way.
	MaxKeySessions = 32
	// SessionWritten is the time between two writes of the time when a session was last used.
	SessionWritten = 5 * time.Minute
)

// Sessions are the signed-in browsers of a tenant. Each belongs to an API key, acts as it, and ends with it.
// A session is known by the digest of its secret, which is never stored.
type Sessions interface {
	// CreateSession begins a session of a key. It returns Unauthorized when the key does not work.
	CreateSession(ctx context.Context, keyID string, digest KeyDigest) error
	// ResumeSession returns the credential of the key of a session. It returns Unauthorized when the session
	// has ended, and when the key does not work any more. It reads also while the store takes no writes.
	ResumeSession(ctx context.Context, keyID string, digest KeyDigest) (Credential, error)
	// EndSession ends a session, if there is one.
	EndSession(ctx context.Context, keyID string, digest KeyDigest) error
}
