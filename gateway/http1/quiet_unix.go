//go:build unix && (!linux || 386 || s390x)

package http1

import "syscall"

// Quiet reports whether the peer of a socket has neither closed it nor sent data that was
// not read. It does not block; it overwrites room.
func Quiet(fd uintptr, room *[1]byte) bool {
	_, _, err := syscall.Recvfrom(int(fd), room[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
}
