//go:build unix

package targets

import (
	"io/fs"
	"syscall"

	"svc/gateway/child"
)

// isOwner reports whether a folder belongs to an account.
func isOwner(info fs.FileInfo, a *child.Account) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == a.UID
}
