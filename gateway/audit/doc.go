// Package audit writes and reads the audit log of the gateway (gateway specification,
// Audit records): one JSON line per request, and lines for stream openings, stream frames
// and checkpoints.
//
// It contains the record, its encoding, the file with its rotation, the hash chain with
// its signed checkpoints, the remote sinks, a reader that follows the log across
// rotations, and a verifier. The callers decide the contents of a record, and the
// response to a request whose line cannot be written.
//
// A line is {"seq":N,<fields>,"hash":"<64 hex>"}. The hash is SHA-256 over the 32 bytes
// of the hash before it (32 zero bytes at the start) followed by the line's own bytes up
// to, and without, `,"hash":` (decision AUD14). Without a chain the hash member is
// absent.
package audit
