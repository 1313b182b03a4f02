//go:build !linux

package postgres

import "syscall"

// unacknowledged does nothing on this system.
func unacknowledged(string, string, syscall.RawConn) error { return nil }
