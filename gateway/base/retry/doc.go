// Package retry has the pauses between attempts and the breaker that stops them.
//
// # Backoff
//
// Backoff computes growing pauses between attempts (exponential backoff).
//
// # Breaker
//
// Breaker stops the calls to an endpoint that fails repeatedly: a guardrail
// webhook, or an upstream. It has no clock of its own.
package retry
