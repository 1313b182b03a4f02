//go:build unix

package storecmd

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// makePrivate gives a socket that has no path yet the mode 0600, which its path then has from
// the beginning. The umask is no means for this: it belongs to the whole process, which creates
// other files meanwhile. Only Linux has such modes; elsewhere the error has no meaning.
func makePrivate(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o600) })
}
