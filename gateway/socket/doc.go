// Package socket reads and writes TCP connections with fewer scheduler calls (decision
// FAST12).
//
// The sockets of a Go program are non-blocking, so a system call on a socket needs no
// notification of the scheduler. The notification may wake the runtime's monitor thread,
// which at low rates costs more than the call. On Linux a [Conn] therefore makes raw
// system calls, and waits in the runtime's poller like any other connection. It uses
// ordinary calls on other systems, for connections that are not TCP sockets, and under
// the race detector, which derives the order of events from ordinary calls.
package socket
