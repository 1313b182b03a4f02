// Package stdio is the transport to an upstream that is a program on this machine: it
// starts processes of the program on demand, exchanges messages with them as lines on
// their standard input and output, and ends them.
//
//   - pool.go: the process for a message, the number of processes, and their end
//   - process.go, lines.go, dispatch.go: one process: its start, the messages to it, and
//     the dispatch of the messages from it
//   - call.go, sessionstream.go: the messages to callers, as bodies of responses
//   - session.go, shared.go: sessions, and the differences if several use one process
//
// A session has a process of its own, or shares one with others: see
// [upstream.ProcessConfig.Sharing]. Session ids belong to the transport. A session
// outlives its process: a process that ended, because it was idle or failed, is
// replaced when the session is used again, and receives the same initialize.
package stdio
