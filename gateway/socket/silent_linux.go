//go:build !386 && !s390x

package socket

import (
	"syscall"
	"unsafe"
)

// Silent reports whether the peer of a socket has neither closed it nor sent
// anything that was not read. It does not wait; room is overwritten.
func Silent(fd uintptr, room *[1]byte) bool {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(room)), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return errno == syscall.EAGAIN
}
