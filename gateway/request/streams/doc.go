// Package streams forwards event streams: from one upstream in response to a request, or
// merged from all upstreams of a session in response to GET.
//
// [Client] is the client's side of a stream: it writes frames, with a watchdog that
// sends keepalive comments on an idle stream and ends a stream that must not continue.
// [Upstream] is the side of one upstream: it reads frames and passes each to a
// [Handler]. [Merged] joins several upstreams to one client. The handlers evaluate and
// record frames; this package does not depend on rules, audit lines or a gateway.
package streams
