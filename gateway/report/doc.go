// Package report carries the requests of the gateway to the control plane: it
// follows the audit files and posts each request as a trace.
//
// It owns the control_plane section of the configuration, the reading position
// it saves, the mapping from audit lines to traces, batching, retries and the
// quarantine of batches that are refused. The files belong to package audit,
// the wire types to server/api, and the HTTP client is handed in as a [Sink].
//
// The audit file is the queue. The position is saved only after the control
// plane has acknowledged a batch, and each trace has the id that its audit
// line has, so a crash on either side loses no trace and doubles none.
package report
