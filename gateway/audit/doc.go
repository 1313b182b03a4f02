// Package audit writes and reads the audit trail of the gateway (gateway
// specification, Audit records): one JSON line per request, and lines for
// stream openings, stream frames and checkpoints.
//
// It owns the record, its text form, the file with its rotation, the hash
// chain with its signed checkpoints, the remote sinks, and the reading side: a
// follower that survives rotation and a verifier. What goes into a record is
// decided by its callers, as is what a request whose line cannot be written is
// answered.
//
// A line is {"seq":N,<fields>,"hash":"<64 hex>"}. The hash is SHA-256 over the
// 32 bytes of the hash before it (32 zero bytes at the start) followed by the
// line's own bytes up to, and without, `,"hash":`. Without a chain the hash
// member is absent.
package audit
