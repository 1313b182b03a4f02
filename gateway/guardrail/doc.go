// Package guardrail asks webhooks what they think of a message (gateway
// specification, guardrails and Action: guardrail).
//
// It owns the section of the configuration, the one HTTP call of a callout with
// its bounds, the reading of what an endpoint answers, the breaker that stops
// calling one that keeps failing, and the probe of the diagnostics command. An
// [Endpoint] returns a [Result]; what becomes of the message, its audit line and
// the answer to the client belong to package gateway.
package guardrail
