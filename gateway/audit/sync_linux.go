package audit

import (
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// syncer syncs files to the disk, one at a time. The zero value is ready; it is safe for
// concurrent use. Call Close when it is no longer needed.
type syncer struct {
	mu      sync.Mutex
	state   syncState
	ring    uintptr  // asynchronous I/O context
	event   *os.File // eventfd that the kernel signals at the end of a request
	eventFD uintptr
	request request
	end     syncOutcome
	// getEvent waits for the end of a request and reports whether there is one. open sets it to
	// the system call unless a test has set it.
	getEvent func(ring uintptr, end *syncOutcome) bool
}

type syncState int

const (
	unopened syncState = iota
	usable
	unusable // fsync is called
)

// request is the kernel's struct iocb.
type request struct {
	_              uint64    // data
	_              [2]uint32 // key and flags of reads and writes
	opcode         uint16
	_              int16 // priority
	fd             uint32
	_              [4]uint64 // buffer, its length, offset, reserved
	flags, eventFD uint32
}

// syncOutcome is the kernel's struct io_event.
type syncOutcome struct {
	_      [2]uint64 // data and request
	result int64
	_      int64
}

const (
	opcodeSync    = 2 // IOCB_CMD_FSYNC
	flagTellEvent = 1 // IOCB_FLAG_RESFD
)

// Sync is [os.File.Sync].
func (s *syncer) Sync(f *os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == unopened {
		s.open()
	}
	if s.state != usable || !s.submit(f) {
		return f.Sync()
	}
	var ends [8]byte
	if _, err := s.event.Read(ends[:]); err == nil {
		if s.getEvent(s.ring, &s.end) {
			if s.end.result < 0 {
				return &os.PathError{Op: "sync", Path: f.Name(), Err: syscall.Errno(-s.end.result)}
			}
			return nil
		}
	}
	s.close()
	s.state = unusable
	return f.Sync()
}

func getEvent(ring uintptr, end *syncOutcome) bool {
	n, _, _ := syscall.Syscall6(syscall.SYS_IO_GETEVENTS, ring, 1, 1, uintptr(unsafe.Pointer(end)), 0, 0)
	return n == 1
}

// submit submits the request to the kernel; false means that the kernel does not accept it.
func (s *syncer) submit(f *os.File) bool {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	taken := false
	err = conn.Control(func(fd uintptr) {
		s.request = request{opcode: opcodeSync, fd: uint32(fd), flags: flagTellEvent, eventFD: uint32(s.eventFD)}
		list := &s.request
		n, _, errno := syscall.Syscall(syscall.SYS_IO_SUBMIT, s.ring, 1, uintptr(unsafe.Pointer(&list)))
		taken = errno == 0 && n == 1
	})
	return err == nil && taken
}

func (s *syncer) open() {
	s.state = unusable
	if s.getEvent == nil {
		s.getEvent = getEvent
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return
	}
	s.event, s.eventFD = os.NewFile(fd, "eventfd"), fd
	if _, _, errno = syscall.Syscall(syscall.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&s.ring)), 0); errno != 0 {
		s.event.Close()
		return
	}
	s.state = usable
}

// Close releases the kernel's resources. A later Sync calls fsync.
func (s *syncer) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == usable {
		s.close()
	}
	s.state = unusable
}

func (s *syncer) close() {
	_, _, _ = syscall.Syscall(syscall.SYS_IO_DESTROY, s.ring, 0, 0)
	s.event.Close()
}
