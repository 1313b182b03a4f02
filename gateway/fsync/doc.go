// Package fsync brings files to the disk without holding up a processor.
//
// A call of fsync takes milliseconds, and the scheduler notices a processor that
// waits in a system call only after up to ten of them. Where a program has one
// processor nothing else runs meanwhile, and every request of that time is late. A
// [Syncer] asks the kernel to do it in the background and waits like for a network
// connection. Where that is not to be had it calls fsync.
package fsync
