//go:build !linux

package bridge

import "io"

// unread returns the number of bytes in a pipe that its reader has not read yet; false when
// that is not known.
func unread(io.Writer) (n int, known bool) { return 0, false }
