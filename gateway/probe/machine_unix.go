//go:build linux || darwin

package probe

import "syscall"

// openFiles returns the limit of open files of this process; 0 when it cannot be read.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}

// freeSpace returns the bytes that a user other than root can still write to the file
// system of a path.
func freeSpace(path string) uint64 {
	var s syscall.Statfs_t
	if syscall.Statfs(path, &s) != nil {
		return unlimited
	}
	return s.Bavail * uint64(s.Bsize)
}
