// Package upstream has the servers behind the gateway: their configuration, the transports that
// carry messages to them, and the HTTP/1.1 client.
//
//	message   package client        the gateway's own messages: sessions, lists, probes
//	   │      package translate     a client of one protocol generation, a server of the other
//	   │      breaker.go            messages in flight, and the breaker of upstreams[].breaker
//	   ▼      Transport             posts a message, opens a stream, ends a session     transport.go, events.go
//	          ├── HTTP              over Client, with Credentials                       http.go
//	          │     package credentials   tokens: the gateway's, each caller's, an operator's
//	          └── package stdio     a program: processes, accounts, Landlock
//	socket    Client                one pooled connection for each exchange; strict, bounded
//	                                retry.go, exchange.go, pool.go, conn.go, response.go, body.go
//
// Package targets opens the transports of a configuration. [Router] selects the upstream of a tool.
//
// [Transport] is the extension point for another kind of upstream, or another way to authenticate at
// one: its users depend on it only, not on URLs or credentials.
//
// The client writes a request with one call, never sends a request twice unless that is
// certain or declared to be harmless ([Client.Do]), follows no redirect, requests no compression, and
// parses responses strictly: a message whose framing is ambiguous is rejected. It streams
// bodies and bounds everything that an upstream can make large or slow.
//
// The callers interpret messages: JSON-RPC, event-stream frames, the choice of header
// fields to forward, trace context, and the mapping from errors to responses.
package upstream
