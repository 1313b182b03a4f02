// Package policy contains the rules of the gateway: their configuration, its validation,
// the engine that decides which rule applies to a message, and the substitutions of the
// redact action (gateway specification, Policy rule grammar).
//
// The package only decides. The gateway applies the action, owns the buckets of rate
// limits, calls the guardrails and records the decisions; package auth identifies the
// caller. The package is pure: it uses no clock, no network and no log.
package policy
