//go:build unix

package targets

import (
	"io/fs"
	"syscall"
)

// isOwner reports whether a folder belongs to a user.
func isOwner(info fs.FileInfo, uid int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid
}
