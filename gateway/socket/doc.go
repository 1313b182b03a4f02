// Package socket reads and writes TCP connections at the least cost.
//
// The sockets of a Go program never block, so the scheduler need not be told
// before each system call on one: telling it wakes the runtime's monitor thread,
// which at low rates costs more than the call. On Linux a [Conn] therefore makes
// the calls directly, and waits in the runtime's poller like any other connection.
// Elsewhere, for connections that are no TCP sockets, and under the race detector,
// which learns from the ordinary calls what happens before what, it uses those.
package socket
