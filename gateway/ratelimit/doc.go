// Package ratelimit decides whether one more event fits a token bucket: the
// arithmetic on a passed time, the interface of a place that keeps buckets, the
// bounded place in memory, and the one in Redis that replicas share.
//
// It leaves to others who is limited and by what: the caller builds the [Key]
// from a rule and a typed principal, takes rate and burst from its own
// configuration on every call (so a reload re-applies them and keeps the
// buckets), turns a refusal into an answer, and decides what a store that fails
// means for the request. The arithmetic reads no clock; the Redis store counts in
// the clock of its server.
package ratelimit
