package redis

import (
	"context"
	"time"
)

// Limit is the kind of limit that a bucket belongs to, so that a rule and the input limit
// never share a bucket, whatever their names are.
type Limit uint8

// The limits.
const (
	// Input is the limit before a body is read (gateway specification,
	// input_rate_limit); Key.Rule is empty.
	Input Limit = iota + 1
	// Rule is a policy rule of action rate_limit (gateway specification,
	// Action: rate_limit); Key.Rule is its id.
	Rule
)

// Key identifies one bucket. The principal is typed, so an API key whose id equals a
// subject has a different bucket.
type Key struct {
	// Limit is the kind of limit.
	Limit Limit
	// Rule is the id of the rule.
	Rule string
	// Kind is the kind of principal: ip, key or oauth.
	Kind string
	// Issuer qualifies an OAuth principal; empty for the others.
	Issuer string
	// Principal is the value: an address, a key id or a claim.
	Principal string
}

// Store stores buckets. Implementations are safe for concurrent use and bounded, because
// principals are arbitrary input.
type Store interface {
	// Allow takes one token from the bucket of key, which is full at first. rate is in
	// tokens per second and above zero, burst is the capacity and at least one; both may
	// differ between calls without resetting the bucket. now is the caller's clock; a
	// shared store may use its own.
	//
	// When the bucket is empty, ok is false and retryAfter is the time until the next
	// token. An error means that the store could not decide; ok is then false and the
	// caller's fail posture decides. The in-memory store never fails.
	Allow(ctx context.Context, key Key, rate float64, burst int, now time.Time) (ok bool, retryAfter time.Duration, err error)
}
