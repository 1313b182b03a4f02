// Package mcp parses and writes the messages of the protocol: JSON-RPC envelopes, their methods,
// protocol revisions and mirrored headers, error bodies, and the events of an event stream.
//
//	bytes ── scan.go ──▶ Message: kind, id, method, spans   names.go (no name twice), member.go
//	           │            │
//	           │            ├── method.go, dialect.go, kind.go   what the revisions define
//	           │            ├── list.go, texts.go, task.go       parts of answers
//	           │            └── splice.go, strip.go, object.go   changed bytes, at the spans
//	events ── eventreader.go ──▶ Event ── Message
//	header ── header_forward.go ──▶ the fields that pass; header_mirrored.go: those that repeat the body
//
// An envelope is parsed once, by [Scan]. The scan is strict, so that no peer can
// interpret the same bytes differently, and all later steps (policy, routing, audit,
// forwarding) use the one [Message] that it returns. Nothing is decoded into Go values
// and nothing is encoded again: a message is forwarded as the bytes that the rules
// decided on, and changed by splicing at the offsets of the scan.
//
// canonical_json.go defines one spelling for each JSON value, so that texts with the same value
// have the same bytes and the same digest: members sorted by code point, strings with the fewest
// escapes, numbers as exact decimals, no white space. Numbers are not rounded, unlike in RFC
// 8785: 9007199254740993 and 9007199254740992 differ.
//
// Header fields are forwarded by an allowlist in both directions, so that neither a caller's
// credential nor an upstream's challenge is ever forwarded; fields that the configuration adds never
// include these.
//
// invisible.go removes characters that are invisible for a person and that a model may still read
// from texts of upstreams in the gateway's own results.
//
// The package is pure: it uses no clock, no network and no log. HTTP statuses, rules,
// sessions and routes belong to other packages.
package mcp
