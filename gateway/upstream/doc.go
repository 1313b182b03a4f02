// Package upstream forwards requests to the servers behind the gateway: a pooled HTTP/1.1
// client for one upstream, optimized for forwarding, and the router that selects the
// upstream of a tool.
//
// The client writes a request with one call, never sends a request twice unless that is
// certain or declared to be harmless, follows no redirect, requests no compression, and
// parses responses strictly: a message whose framing is ambiguous is rejected. It streams
// bodies and bounds everything that an upstream can make large or slow.
//
// The callers interpret messages: JSON-RPC, event-stream frames, the choice of header
// fields to forward, trace context, and the mapping from errors to responses.
package upstream
