// Package mcp reads and writes the messages of the protocol: JSON-RPC
// envelopes, their methods, protocol revisions and mirrored headers, error
// bodies, and the events of an event stream.
//
// An envelope is read once, by [Scan]. The scan is strict, so that no peer can
// read the same bytes differently, and everything later (policy, routing,
// audit, forwarding) works on the one [Message] it gives. Nothing is decoded
// into Go values and nothing is written again: a message is forwarded as the
// bytes that were judged, and changed by splicing at the offsets of the scan.
//
// The package is pure: no clock, no network, no log. Statuses of HTTP, rules,
// sessions and routes belong to others.
package mcp
