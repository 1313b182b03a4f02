package ratelimit

import (
	"context"
	"time"
)

// Limit says which limit a bucket belongs to, so that a rule and the input
// limit can never meet in one bucket whatever they are called.
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

// Key names one bucket. The principal is typed: an API key that is called like
// a subject shares nothing with it.
type Key struct {
	// Limit is the kind of limit.
	Limit Limit
	// Rule is the id of the rule.
	Rule string
	// Kind is the kind of principal: ip, key or oauth.
	Kind string
	// Issuer qualifies an OAuth principal; empty for the others.
	Issuer string
	// Principal is the value: an address, a key id, a claim.
	Principal string
}

// Store keeps buckets. Implementations are safe for concurrent use, and bound
// what they keep: principals come from outside.
type Store interface {
	// Allow takes one token from the bucket of key, which starts full. rate is in
	// tokens per second and above zero, burst the capacity and at least one;
	// both may differ from call to call, the bucket is kept. now is the caller's
	// clock, which a shared store may replace by its own.
	//
	// When the bucket is empty ok is false and retryAfter says when to come
	// again. An error means that the store could not decide; ok is then false and
	// the caller takes its fail posture. The in-memory store never fails.
	Allow(ctx context.Context, key Key, rate float64, burst int, now time.Time) (ok bool, retryAfter time.Duration, err error)
}
