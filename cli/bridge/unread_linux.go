package bridge

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread returns how many bytes of a pipe, or of a socket of this machine, its reader has not
// taken yet; false where that is not known.
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
		case unix.S_IFSOCK: // Node.js gives programs sockets in the place of pipes
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ)
		default:
			err = unix.ENOTSUP
		}
	})
	return n, failed == nil && err == nil
}
