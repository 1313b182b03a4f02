// Package quality scores what tools answer: a result whose tool declares an
// output schema is held against that schema.
//
// It owns the schemas, which it learns from the lists of tools that pass, their
// bounds, and the score. Which messages are shown to it, and where a score is
// written down, is for the gateway.
//
// Schemas and answers come from upstreams and are bounded: in size, in number,
// and in the work that a validation can take. What is beyond a bound is not
// scored.
package quality
