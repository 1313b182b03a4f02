package bridge

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread returns the number of bytes in a pipe, or in a local socket, that its reader has not
// read yet; false when that is not known.
func unread(w io.Writer) (n int, known bool) {
	f, ok := w.(syscall.Conn) // an *os.File
	if !ok {
		return 0, false
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, false
	}
	failed := conn.Control(func(fd uintptr) {
		var at unix.Stat_t
		if err = unix.Fstat(int(fd), &at); err != nil {
			return
		}
		switch at.Mode & unix.S_IFMT {
		case unix.S_IFIFO:
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		case unix.S_IFSOCK: // Node.js gives child processes sockets instead of pipes
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
		default:
			err = unix.ENOTSUP
		}
	})
	return n, failed == nil && err == nil
}
