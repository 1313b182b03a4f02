package store

import (
	"context"
	"errors"
	"time"
)

// Lease is the right to do a piece of background work until it runs out.
type Lease struct {
	Name   string
	Holder string
	// Token is the fencing token: higher than that of every other holder of the name
	// before.
	Token uint64
	// Until is when it runs out by the store's clock, which need not be the caller's.
	Until time.Time
}

// ErrLeaseLost refuses a write of a context that [UnderLease] made: the lease has run
// out, was given back, or is another holder's. Nothing was written.
var ErrLeaseLost = errors.New("the lease was lost")

type leaseKey struct{}

// UnderLease makes every write to Records with the context, but those of leases
// themselves, depend on the lease: it is checked in the transaction that writes, so
// that a holder that was paused changes nothing once its time is over. On an [Engine]
// Expire is such a write too; elsewhere it needs no lease to be safe.
func UnderLease(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// LeaseOf returns the lease that writes with the context depend on. Backends ask.
func LeaseOf(ctx context.Context) (l Lease, ok bool) {
	l, ok = ctx.Value(leaseKey{}).(Lease)
	return l, ok
}

// Leases is what background work needs to be done once: by one process at a
// time, and not again after a restart.
type Leases interface {
	// AcquireLease takes or renews a named lease for a time from now on, by the
	// store's clock. ok is false while another holder has it. Renewing keeps the token,
	// also of a lease that ran out and that nobody took meanwhile.
	AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (l Lease, ok bool, err error)
	// ReleaseLease gives a lease back; one that is not held is no error.
	ReleaseLease(ctx context.Context, l Lease) error
	// Watermark is a named time that background work remembers; zero when never set.
	Watermark(ctx context.Context, name string) (time.Time, error)
	// SetWatermark sets it.
	SetWatermark(ctx context.Context, name string, at time.Time) error
}

// RetentionBounds says what is too old. Zero times leave their data alone.
type RetentionBounds struct {
	Violations time.Time // SLA violations whose period ended before it
	Events     time.Time // identity events received before it
	// AuditEvents created before it are removed, from the oldest on.
	AuditEvents time.Time
	// Limit bounds the rows of each kind in one call, so that it never delays writers
	// for long; 0: 1000. Each kind has a limit of its own: a backlog of one does not
	// keep the others from being removed.
	Limit int
}

// RetentionResult counts what ApplyRetention removed.
type RetentionResult struct {
	Violations, Events, Answers, AuditEvents int
	More                                     bool // a kind reached its limit: call again
}

// Housekeeping is the upkeep of one tenant.
type Housekeeping interface {
	// ApplyRetention removes what is too old, and answers of Idempotency beyond their time, in
	// one bounded transaction.
	ApplyRetention(ctx context.Context, b RetentionBounds) (RetentionResult, error)
	// RedactionKey is a stable random key of the tenant for the hash redaction
	// strategy (32 bytes).
	RedactionKey(ctx context.Context) ([]byte, error)
}
