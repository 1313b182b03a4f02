// Package upstream forwards requests to the servers behind the gateway: a pooled
// HTTP/1.1 client for one upstream, made for the forwarding path, and the router
// that finds the upstream of a tool.
//
// The client writes a request with one call, never sends a request twice unless
// that is certain or declared to be harmless, follows no redirect, asks for no
// compression, and reads answers strictly: what two readers could frame in two
// ways is refused. It streams bodies and bounds everything an upstream can make
// large or slow.
//
// It leaves to others what a message means: JSON-RPC, event-stream frames, which
// header fields pass, trace context, and the table from its errors to answers.
package upstream
