// Package redis implements token buckets: the arithmetic, the interface of a store of
// buckets, a bounded store in memory, and a store in Redis that replicas share.
//
// The callers decide who is limited and by which key: they build the [Key] from a rule
// and a typed principal, pass rate and burst of their configuration on every call (so
// that a reload applies new limits and keeps the buckets), turn a refusal into a
// response, and decide about requests whose store fails. The arithmetic reads no clock;
// the Redis store uses the clock of its server.
package redis
