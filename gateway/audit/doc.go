// Package audit is the audit log: its lines, chain, rotation, sinks and verification, the statistics
// of lines, and the traces that the reporter makes of it for the control plane.
//
//	Record ── log.go, queue.go ──▶ write.go ── encode.go, chain.go ──▶ file ──▶ rotate.go
//	           group commit: one       │        the line, its hash                  │
//	           write for all that wait ▼                                            ▼
//	                               sink.go      syslog, HTTP, OTLP              older files,
//	                               write_background.go  fsync, checkpoints      pruned
//
//	opening     inspect.go, recover.go    the end of the file against its last signed checkpoint
//	                                      and the saved head (head_saved.go)
//	files ──▶ reader.go ── decode.go ──▶ Record
//	            │
//	            ├── reporter.go    follows the log, saves its position     reporter_*.go
//	            │     └── trace.go      a line becomes a trace; posted in batches, bisected, set aside
//	            ├── verify.go      chain and signatures, across rotations  verify_*.go
//	            └── summary.go     counts and durations of lines           percentile.go
//
// A line is {"seq":N,<fields>,"hash":"<64 hex>"}: one for each request, and lines for stream openings,
// stream frames and checkpoints. The hash is SHA-256 over the 32 bytes of the hash before it (32 zero
// bytes at the start) followed by the line's own bytes up to, and without, `,"hash":` (decision
// AUD14). Without a chain the hash member is absent.
//
// The callers decide the contents of a record, and the response to a request whose line cannot be
// written.
//
// # The reporter
//
// The reporter posts each request as a trace. The audit file is its queue: the position is saved only
// after the control plane has acknowledged a batch, and each trace has the id of its audit line, so
// that a crash on either side neither loses nor duplicates a trace. The HTTP client
// is passed in as a [Sink].
//
// # Synchronizing
//
// A call of fsync takes milliseconds, and the scheduler detects a processor that is blocked in a
// system call only after up to ten of them. In a program with one processor nothing else runs
// meanwhile, and every request of that time is late. A syncer submits the request to the kernel
// (asynchronous I/O) and waits for its end in the runtime's poller. Where that is not available
// it calls fsync. On one processor, beside a goroutine that writes and syncs without pause, a round
// trip over loopback took 0.18 ms on average and with fsync 0.73 ms (five runs each in turn, on a busy
// machine).
package audit
