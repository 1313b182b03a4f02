// Package mcp parses and writes the messages of the protocol: JSON-RPC envelopes, their
// methods, protocol revisions and mirrored headers, error bodies, and the events of an
// event stream.
//
// An envelope is parsed once, by [Scan]. The scan is strict, so that no peer can
// interpret the same bytes differently, and all later steps (policy, routing, audit,
// forwarding) use the one [Message] that it returns. Nothing is decoded into Go values
// and nothing is encoded again: a message is forwarded as the bytes that the rules
// decided on, and changed by splicing at the offsets of the scan.
//
// The package is pure: it uses no clock, no network and no log. HTTP statuses, rules,
// sessions and routes belong to other packages.
package mcp
