package store

import (
	"context"
	"crypto/sha256"
	"time"
)

// IdempotencyTTL is how long an answer is kept for a retry.
const IdempotencyTTL = 24 * time.Hour

// Attempt is a request that carries an Idempotency-Key.
type Attempt struct {
	KeyID string // the calling API key
	Route string // method and path as requested
	Token string // the Idempotency-Key
	Body  [sha256.Size]byte
}

// Answer is what is given again to a retry. Secrets must be taken out of it.
type Answer struct {
	Status      int
	ContentType string
	Body        []byte
}

// Idempotency remembers the answers of requests that may be retried. Records are
// scoped to KeyID, Route and Token.
type Idempotency interface {
	// BeginAttempt returns the answer of an earlier attempt, or nil when the caller
	// is to do the work and then call FinishAttempt or AbandonAttempt. While a twin is
	// at work it waits for it, until ctx ends; when the twin abandons, one waiter takes
	// its place. An earlier attempt with another Body is a Conflict
	// ("Idempotency-Key").
	BeginAttempt(ctx context.Context, a Attempt) (*Answer, error)
	// FinishAttempt keeps the answer for IdempotencyTTL and wakes twins. Without a
	// begun attempt it is an internal error.
	FinishAttempt(ctx context.Context, a Attempt, answer Answer) error
	// AbandonAttempt forgets a begun attempt: nothing was done, a retry may try again.
	// One that was not begun, or has finished, is no error.
	AbandonAttempt(ctx context.Context, a Attempt) error
}
