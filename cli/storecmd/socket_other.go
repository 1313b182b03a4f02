//go:build !unix

package storecmd

import "syscall"

// makePrivate does nothing: this system has no modes of sockets.
func makePrivate(syscall.RawConn) error { return nil }
