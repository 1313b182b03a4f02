// Package front is the HTTP server that the gateway's calls come in at.
//
// It serves one narrow form of request itself: a POST to one path, in HTTP/1.1,
// whose header has exactly one Host and one Content-Length and nothing that
// reframes the message ([head] has the grammar). Agents send hardly anything else,
// and for that a server needs neither the header parsing, the allocations nor the
// second goroutine that the general case asks for. Everything else is handed to a
// [net/http.Server], with the bytes that were read, and the connection stays
// there: other methods and paths, chunked bodies, HTTP/2, and above all whatever
// is odd. What is odd is where two readers of one message come to differ, and
// net/http has been hardened for it.
//
// It owns connections, framing and time-outs. What a request means is the
// handler's business. The handler gets the same interfaces as from net/http, with
// one difference: the request, its header and its context belong to the
// connection and are used again, so that none of them may be kept after the
// handler has returned.
package front
