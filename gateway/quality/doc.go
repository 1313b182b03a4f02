// Package quality scores the responses of tools: a result whose tool declares an output
// schema is validated against that schema (decision GOV20).
//
// It contains the schemas, which it learns from the lists of tools that pass, their
// bounds, and the score. The gateway chooses the messages and records the score.
//
// Schemas and responses come from upstreams and are bounded: in size, in number, and in
// the work of a validation. Anything beyond a bound is not scored.
package quality
