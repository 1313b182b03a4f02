// Package front is the HTTP server that receives the gateway's calls (decision FAST1).
//
// It serves one form of request itself: a POST to one of its paths, in HTTP/1.1, whose header has
// exactly one Host and one Content-Length and no field that changes the framing ([head]
// has the grammar; decision FAST2). Agents send little else, and this form needs neither
// the header parsing, the allocations nor the second goroutine of the general case. All
// other connections are handed over to a [net/http.Server], with the bytes that were
// read, and stay there (decision FAST9): other methods and paths, chunked bodies, HTTP/2,
// and any unusual header. Two parsers of one unusual message may disagree, and net/http
// is hardened against such attacks.
//
// The package owns connections, framing and timeouts. The handler decides about requests.
// It gets the same interfaces as from net/http, with one difference: the request, its
// header and its context belong to the connection and are reused, so that the handler
// must not retain them after it has returned (decision FAST10).
package front
