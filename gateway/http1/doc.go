// Package http1 is the HTTP/1.1 server for calls, with its sockets and the addresses of clients
// behind proxies.
//
// # Server
//
// The server serves one form of request itself: a POST to one of its paths, in
// HTTP/1.1, whose header has exactly one Host and one Content-Length and no field that changes the
// framing ([head] has the grammar). Agents send little else, and this form needs
// neither the header parsing, the allocations nor the second goroutine of the general case. All
// other connections are handed over to a [net/http.Server], with the bytes that were
// read, and stay there: other methods and paths, chunked bodies, HTTP/2,
// and any unusual header. Two parsers of one unusual message may disagree, and net/http
// is hardened against such attacks.
//
// The server owns connections, framing and timeouts. The handler decides about requests.
// It gets the same interfaces as from net/http, with one difference: the request, its
// header and its context belong to the connection and are reused, so that the handler
// must not retain them after it has returned.
//
// # Sockets
//
// The sockets of a Go program are non-blocking, so a system call on a socket needs no
// notification of the scheduler. The notification may wake the runtime's monitor thread,
// which at low rates costs more than the call. On Linux a [Conn] therefore makes raw
// system calls, and waits in the runtime's poller like any other connection (decision FAST12). It
// uses ordinary calls on other systems, for connections that are not TCP sockets, and under
// the race detector, which derives the order of events from ordinary calls.
//
// In programs built with the race detector, [Released] overwrites memory that is returned to a
// pool, so that tests detect references to released memory: no request, response or audit line may
// contain a part of another one.
//
// # Addresses of clients
//
// A [Resolver] determines the address of the client behind trusted reverse proxies (gateway
// specification, trusted_proxies). It parses Forwarded (RFC 7239) and X-Forwarded-For. Its callers
// use the address for rate-limit buckets, the principal of anonymous callers, and the audit line.
package http1
