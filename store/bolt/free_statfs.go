//go:build linux || darwin || freebsd

package bolt

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// diskFree returns the bytes that an unprivileged program can still write to the disk of the
// file at path; nil when the system does not report them.
func diskFree(path string) *int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &st); err != nil {
		return nil
	}
	free := int64(st.Bavail) * int64(st.Bsize) // the types of the fields differ between systems
	return &free
}
