//go:build !386 && !s390x

package http1

import (
	"syscall"
	"unsafe"
)

// Quiet reports whether the peer of a socket has neither closed it nor sent data that was
// not read. It does not block; it overwrites room.
func Quiet(fd uintptr, room *[1]byte) bool {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(room)), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return errno == syscall.EAGAIN
}
