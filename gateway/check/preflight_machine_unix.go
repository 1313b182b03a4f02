//go:build linux || darwin

package check

import "syscall"

// openFiles returns the limit of open files of this process; 0 when it cannot be read.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}
