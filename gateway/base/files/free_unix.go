//go:build linux || darwin

package files

import "syscall"

// FreeSpace returns the bytes that a user other than root can still write to the file system
// of a path; false where that is not known.
func FreeSpace(path string) (uint64, bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(path, &s) != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}
