//go:build !unix

package targets

import "io/fs"

// isOwner is for systems without numeric user ids.
func isOwner(fs.FileInfo, int) bool { return false }
