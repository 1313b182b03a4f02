// Package report sends the requests of the gateway to the control plane: it follows the
// audit files and posts each request as a trace.
//
// It contains the control_plane section of the configuration, the saved reading position,
// the mapping from audit lines to traces, batching, retries and the quarantine of refused
// traces. Package audit owns the files, server/api the wire types, and the HTTP client is
// passed in as a [Sink].
//
// The audit file is the queue. The position is saved only after the control plane has
// acknowledged a batch, and each trace has the id of its audit line, so that a crash on
// either side neither loses nor duplicates a trace (decision AUD47).
package report
