// Package api defines the JSON types that the control plane and its clients exchange:
// resources, request bodies, the error body and the allowed values of every enum (control
// plane specification, "Resources and their fields" and "Endpoints").
//
// The package also has the checks that need only the body itself: each request body has a
// Validate method, which returns the details object of a 400, keyed by field. Checks that
// need a clock, a store or a key are the server's: whether a name is taken, whether an
// agent exists, how a body is read and bounded. The package imports no other package of
// the server, so clients can use it too.
//
// Fields that are only in single reads, only in lists, or only in responses to creations
// have a type of their own (Agent and AgentItem, KeyItem and KeyCreated, Trace and
// TraceItem). Timestamps are RFC 3339 in UTC. Money is US dollars as a JSON number.
// Slices without omitempty or omitzero must not be nil when encoded: an empty list is [],
// never null.
package api
