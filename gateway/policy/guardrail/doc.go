// Package guardrail calls webhooks that check messages (gateway specification, guardrails
// and Action: guardrail).
//
// It contains the section of the configuration, the single HTTP call with its bounds, the
// parser of the reply, the circuit breaker of an endpoint, and the probe of the
// diagnostics command. An [Endpoint] returns a [Result]; package gateway forwards or
// rejects the message, and writes the audit line and the response.
package guardrail
