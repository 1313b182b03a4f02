package store

import (
	"context"
	"errors"
	"time"
)

// Lease is the exclusive right to do a piece of background work until it expires.
type Lease struct {
	Name   string
	Holder string
	// Token is the fencing token: it is higher than the token of every earlier holder of the
	// name.
	Token uint64
	// Until is when the lease expires by the store's clock, which may differ from the
	// caller's.
	Until time.Time
}

// ErrLeaseLost rejects a write with a context from [UnderLease]: the lease has expired, was
// released, or belongs to another holder. Nothing was written.
var ErrLeaseLost = errors.New("the lease was lost")

type leaseKey struct{}

// UnderLease makes every write to Records with the context depend on the lease, except the
// methods of Leases. The lease is checked in the transaction that writes, so that a paused
// holder changes nothing after its lease expired. On an [Engine] Expire also is such a write;
// elsewhere Expire is safe without a lease.
func UnderLease(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// LeaseOf returns the lease that writes with the context depend on. It is for backends.
func LeaseOf(ctx context.Context) (l Lease, ok bool) {
	l, ok = ctx.Value(leaseKey{}).(Lease)
	return l, ok
}

// Leases coordinates background work: one process at a time does a piece of work, and a
// restart does not repeat it.
type Leases interface {
	// AcquireLease takes or renews a named lease for a duration from now, by the store's
	// clock. ok is false while another holder has it. Renewing keeps the token, also when the
	// lease has expired and nobody else took it.
	AcquireLease(ctx context.Context, name, holder string, ttl time.Duration) (l Lease, ok bool, err error)
	// ReleaseLease releases a lease. Releasing a lease that is not held is no error.
	ReleaseLease(ctx context.Context, l Lease) error
	Marks
}

// Marks are the named times of a store.
type Marks interface {
	// Watermark returns the named time that background work has reached; zero when never set.
	Watermark(ctx context.Context, name string) (time.Time, error)
	// SetWatermark sets the named time.
	SetWatermark(ctx context.Context, name string, at time.Time) error
}

// MarkWritten is the name of the time of the last write by which a server probed the store. In
// a backup it is the time of the backup, less the time between two such writes.
const MarkWritten = "write probe"

// The marks of [Restored].
const (
	markRestored = "restored"
	markBefore   = "restored into"
	markBackup   = "restored from"
)

// Restored is the last restore of a backup into a store; the zero value is that of a store into
// which none was restored.
type Restored struct {
	// At is the time of the restore. It identifies the store: each restore has a later one.
	At time.Time
	// Before is At of the store that the backup was made of.
	Before time.Time
	// Backup is the time of the backup; zero when it is not known. The store has what was
	// written before it.
	Backup time.Time
}

// RestoredOf returns the last restore of a backup into a store.
func RestoredOf(ctx context.Context, m Marks) (r Restored, err error) {
	if r.At, err = m.Watermark(ctx, markRestored); err != nil || r.At.IsZero() {
		return Restored{}, err
	}
	for _, mark := range []struct {
		name string
		at   *time.Time
	}{{markBefore, &r.Before}, {markBackup, &r.Backup}} {
		if *mark.at, err = m.Watermark(ctx, mark.name); err != nil {
			return Restored{}, err
		}
		if mark.at.Equal(noMark) {
			*mark.at = time.Time{}
		}
	}
	return r, nil
}

// noMark replaces the zero time, which the marks of some stores cannot represent.
var noMark = time.Unix(0, 0)

// MarkRestored records in a store that a backup was restored into it. A zero time of the backup
// is that of the last probe in it. When it fails, it can be called again.
func MarkRestored(ctx context.Context, m Marks, now, backup time.Time) (r Restored, err error) {
	if r.Before, err = m.Watermark(ctx, markRestored); err != nil {
		return Restored{}, err
	}
	if r.Backup = backup; backup.IsZero() {
		if r.Backup, err = m.Watermark(ctx, MarkWritten); err != nil {
			return Restored{}, err
		}
	}
	if r.At = now; !now.After(r.Before) {
		r.At = r.Before.Add(1)
	}
	for _, mark := range []struct {
		name string
		at   time.Time
	}{{markBefore, r.Before}, {markBackup, r.Backup}, {markRestored, r.At}} { // the identity last: it makes the others valid
		if mark.at.IsZero() {
			mark.at = noMark
		}
		if err := m.SetWatermark(ctx, mark.name, mark.at); err != nil {
			return Restored{}, err
		}
	}
	return r, nil
}

// RetentionBounds gives the age limits of records. A zero time keeps all data of its kind.
type RetentionBounds struct {
	Violations time.Time // SLA violations whose period ended before it
	Events     time.Time // identity events received before it
	// Approvals that ended before it are removed, and the arguments of those that ended
	// before ApprovalArguments.
	Approvals, ApprovalArguments time.Time
	Deliveries                   time.Time // deliveries of webhooks queued before it; those that wait too
	// Gateways removes processes of gateways whose last report is older. The name of a gateway that is not known
	// since then is no longer bound to its key, unless it has audit heads, or another key was refused.
	Gateways time.Time
	// AuditEvents created before it are removed, oldest first.
	AuditEvents time.Time
	// Answers of Idempotency are removed when they have expired before it and by the store's
	// clock; zero: by the store's clock.
	Answers time.Time
	// Limit bounds the rows removed per kind in one call, so that writers are never delayed
	// for long; 0: 1000. Each kind has its own limit: a backlog of one kind does not block the
	// removal of the others.
	Limit int
}

// AnswersExpired returns the time by which responses of Idempotency must have expired to be
// removed, given the store's clock. It is for backends.
func (b *RetentionBounds) AnswersExpired(now time.Time) time.Time {
	if !b.Answers.IsZero() && b.Answers.Before(now) {
		return b.Answers
	}
	return now
}

// RetentionResult counts what ApplyRetention removed.
type RetentionResult struct {
	Violations, Events, Answers, AuditEvents, Deliveries, Approvals, Sessions, Gateways int

	More bool // a kind reached its limit: call again
}

// Housekeeping is the maintenance of one tenant.
type Housekeeping interface {
	// ApplyRetention removes records that are too old, expired responses of Idempotency and ended sessions,
	// in one bounded transaction.
	ApplyRetention(ctx context.Context, b RetentionBounds) (RetentionResult, error)
	// RedactionKey returns the tenant's stable random key for the hash redaction strategy (32
	// bytes).
	RedactionKey(ctx context.Context) ([]byte, error)
}
