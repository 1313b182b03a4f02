//go:build linux && !race

package audit

import (
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// quick writes to a file without telling the scheduler before each call:
// telling it wakes the runtime's monitor thread, which costs more than writing a
// few hundred bytes into the page cache. While such a write lasts, the processor
// that makes it does nothing else, so it is only for files that a write does not
// wait for: on disks of this machine, in small pieces, and not for a while after
// one that was slow. It is used by one writer at a time.
type quick struct {
	local bool
	until time.Time // ordinary writes until then
}

const (
	quickSize = 64 << 10
	quickTime = time.Millisecond // a write that lasts longer was slow
	// quickShare is how many times as long as a slow write the pause behind it is:
	// the processor is held up for at most a hundredth of the time. A write that
	// was slow because another process had the core is soon forgotten; a disk
	// that is full of work is left to the scheduler.
	quickShare = 100
)

// pauseAfter is for how long ordinary writes follow one that lasted d.
func pauseAfter(d time.Duration) time.Duration {
	if d <= quickTime {
		return 0
	}
	return min(quickShare*d, time.Minute)
}

// The file systems whose writes end in the page cache of this machine.
var localFileSystems = map[int64]bool{
	0xEF53:     true, // ext2, ext3, ext4
	0x58465342: true, // xfs
	0x9123683E: true, // btrfs
	0xF2F52010: true, // f2fs
	0x2FC12FC1: true, // zfs
	0x01021994: true, // tmpfs
	0x794C7630: true, // overlayfs
}

func newQuick(f *os.File) *quick {
	q := new(quick)
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return q
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return q
	}
	_ = conn.Control(func(fd uintptr) {
		var fs syscall.Statfs_t
		if syscall.Fstatfs(int(fd), &fs) == nil {
			q.local = localFileSystems[int64(uint32(fs.Type))]
		}
	})
	return q
}

// write writes all of p, or says why not.
func (q *quick) write(f *os.File, p []byte) (written int, err error) {
	began := time.Now()
	if !q.local || len(p) == 0 || len(p) > quickSize || began.Before(q.until) {
		return f.Write(p)
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := conn.Control(func(fd uintptr) {
		for written < len(p) && err == nil {
			n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&p[written])), uintptr(len(p)-written))
			switch {
			case errno == syscall.EINTR || errno == syscall.EAGAIN:
			case errno != 0:
				err = &os.PathError{Op: "write", Path: f.Name(), Err: errno}
			case n == 0:
				err = io.ErrShortWrite
			default:
				written += int(n)
			}
		}
	})
	if failed != nil {
		return written, failed
	}
	if ended := time.Now(); ended.Sub(began) > quickTime {
		q.until = ended.Add(pauseAfter(ended.Sub(began)))
	}
	return written, err
}
