// Package policy holds the rules of the gateway: their configuration, its
// validation, the engine that decides which rule applies to a message, and the
// substitutions of the redact action (gateway specification, Policy rule
// grammar).
//
// It only decides. What an action does to the traffic, the buckets of a rate
// limit, the call to a guardrail and every record of a decision belong to the
// gateway; who the caller is belongs to authentication. The package is pure: no
// clock, no network, no log.
package policy
