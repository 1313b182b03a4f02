// Package stdio is the transport to an upstream that is a program on this machine: it starts
// processes of the program on demand, exchanges messages with them as lines on their standard input
// and output, and ends them.
//
//   - pool.go: the process for a message, the number of processes, and their end
//   - process.go, lines.go, dispatch.go: one process: its start, the messages to it, and
//     the dispatch of the messages from it
//   - call.go, sessionstream.go: the messages to callers, as bodies of responses
//   - session.go, shared.go: sessions, and the differences if several use one process
//   - child.go, start_*.go, launch_linux.go, keep_linux.go: the operating system's process
//   - landlock_linux.go, seccomp_linux.go, limits_linux.go: its isolation
//
// A session has a process of its own, or shares one with others: see
// [upstream.ProcessConfig.Sharing]. Session ids belong to the transport. A session
// outlives its process: a process that ended, because it was idle or failed, is
// replaced when the session is used again, and receives the same initialize.
//
// # Processes
//
// The gateway does not trust the programs, and ends them with all their descendants.
//
// On Linux a helper process runs between the gateway and each program: the same binary, run with
// [HelperArg]. It is the subreaper of the program's descendants, also of those that leave its
// session; it ends them when the program has ended, and ends the program and its descendants when
// the gateway process has ended, for whatever reason. The program itself starts without
// capabilities, cannot gain privileges, has no descriptors except its three streams, and, if the
// kernel has Landlock, cannot open the folders of [Command.Hidden]. On amd64 and arm64 a filter
// refuses system calls that act on other processes, and new user namespaces. Data does not pass
// through the helper: the program inherits the streams.
//
// On other systems the program is a plain child in a process group of its own.
package stdio
