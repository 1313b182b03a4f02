package store

import (
	"context"
	"time"
)

// Leases is what background work needs to be done once: by one process at a
// time, and not again after a restart.
type Leases interface {
	// AcquireLease takes or renews a named lease until now+ttl. It returns false
	// while another holder has it.
	AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error)
	// ReleaseLease gives a lease back; one that is not held is no error.
	ReleaseLease(ctx context.Context, name, holder string) error
	// Mark is a named time that background work remembers; zero when never set.
	Mark(ctx context.Context, name string) (time.Time, error)
	// SetMark sets it.
	SetMark(ctx context.Context, name string, at time.Time) error
}

// TrimBounds says what is too old. Zero times leave their data alone.
type TrimBounds struct {
	Violations time.Time // SLA violations whose period ended before it
	Events     time.Time // identity events received before it
	// Limit bounds the rows of each kind in one call, so that it never delays writers
	// for long; 0: 1000. Each kind has a limit of its own: a backlog of one does not
	// keep the others from being removed.
	Limit int
}

// TrimResult counts what a Trim removed.
type TrimResult struct {
	Violations, Events, Answers int
	More                        bool // a kind reached its limit: call again
}

// Housekeeping is the upkeep of one tenant.
type Housekeeping interface {
	// Trim removes what is too old, and answers of Idempotency beyond their time, in
	// one bounded transaction.
	Trim(ctx context.Context, b TrimBounds) (TrimResult, error)
	// RedactionKey is a stable random key of the tenant for the hash redaction
	// strategy (32 bytes).
	RedactionKey(ctx context.Context) ([]byte, error)
}
