// Package stdio is the transport to an upstream that is a program on this machine: it
// starts processes of the program as callers need them, carries messages over their
// standard input and output, a line each, and ends them.
//
//   - pool.go: which process a message goes to, how many there are, and when they end
//   - process.go, lines.go, dispatch.go: one process: its start, what it is sent, and
//     where what it sends belongs
//   - call.go, standing.go: what is sent back to callers, as bodies of responses
//   - session.go, shared.go: sessions, and what changes where several use one process
//
// A session has a process of its own, or uses one with others: see
// [upstream.ProcessConfig.Sharing]. Session ids are the transport's. A session outlives
// its process: one that ended, because it was idle or failed, is replaced when the
// session is used again, and sent the same initialize.
package stdio
