//go:build linux && !race

package http1

import (
	"syscall"
	"unsafe"
)

const direct = true

// receive reads once; false means that it must be called again when the socket is
// readable.
func (t *transfer) receive(fd uintptr) bool {
	p := t.parts[0]
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch errno {
		case 0:
			t.n, t.end = int(n), n == 0
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.errno = errno
			return true
		}
	}
}

// send writes all data; false means that it must be called again when the socket is
// writable.
func (t *transfer) send(fd uintptr) bool {
	for {
		var vec [3]syscall.Iovec
		n := 0
		for _, p := range t.parts {
			if len(p) > 0 {
				vec[n].Base = &p[0]
				vec[n].SetLen(len(p))
				n++
			}
		}
		var done uintptr
		var errno syscall.Errno
		switch n {
		case 0:
			return true
		case 1:
			done, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(vec[0].Base)), uintptr(vec[0].Len))
		default:
			done, _, errno = syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&vec[0])), uintptr(n))
		}
		switch errno {
		case 0:
			t.took(int(done))
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.errno = errno
			return true
		}
	}
}

// lookSendAndWait writes as much as the socket accepts. It returns false after everything
// is written: then it is called again when the socket is readable.
func (c *Conn) lookSendAndWait(fd uintptr) bool {
	if c.asked {
		return true
	}
	c.asked = true
	if c.peerSpoke = !Quiet(fd, &c.peek); c.peerSpoke {
		return true
	}
	return !c.out.send(fd) || c.out.errno != 0
}
