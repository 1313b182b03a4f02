package request

import (
	"svc/gateway/audit"
	"svc/gateway/mcp"
	"svc/gateway/upstream"
)

// Line returns the audit line of the request as far as it is known.
func (ex *Exchange) Line() *audit.Record { return &ex.record }

// Routed returns the upstream of the request.
func (ex *Exchange) Routed() *upstream.Upstream { return ex.route.Upstream }

// TraceID returns the trace id of the audit line.
func (ex *Exchange) TraceID() string { return ex.traceID() }

// PassTrace sets the gateway's span in a header.
func (ex *Exchange) PassTrace(h *mcp.Header) { ex.passTrace(h) }
