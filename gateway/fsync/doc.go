// Package fsync writes files to the disk (fsync) without blocking a processor.
//
// A call of fsync takes milliseconds, and the scheduler detects a processor that is blocked in a
// system call only after up to ten of them. In a program with one processor nothing else runs
// meanwhile, and every request of that time is late. A [Syncer] submits the request to the kernel
// (asynchronous I/O) and waits for its end in the runtime's poller. Where that is not available
// it calls fsync.
package fsync
