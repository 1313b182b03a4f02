// Package ratelimit decides whether one more event fits a token bucket: the
// arithmetic on a passed time, the interface of a place that keeps buckets, and
// the bounded in-memory place.
//
// It leaves to others who is limited and by what: the caller builds the [Key]
// from a rule and a typed principal, takes rate and burst from its own
// configuration on every call (so a reload re-applies them and keeps the
// buckets), and turns a refusal into an answer. It reads no clock.
package ratelimit
