package http1

import (
	"context"
	"os"
	"sync"
	"syscall"
)

// watcher detects that clients disconnect while their requests are handled. One epoll
// instance waits for the peers of all connections to close, so that a request costs
// nothing, and waiting needs no goroutine. A client that closes only its sending side
// counts as disconnected, as in net/http.
type watcher struct {
	file *os.File // the epoll instance, which the runtime's poller waits on
	raw  syscall.RawConn

	mu    sync.Mutex
	conns map[uint64]*watched
	last  uint64
}

// watched is the watcher's state of a connection.
type watched struct {
	c *conn

	id uint64 // 0 while not watched; used by the connection's goroutine

	mu    sync.Mutex
	ctx   *requestContext // of the connection's current request
	ended error           // why requests are canceled; nil while they are not
}

func newWatcher() (*watcher, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	w := &watcher{file: os.NewFile(uintptr(fd), "epoll"), conns: make(map[uint64]*watched)}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.file.Close()
		return nil, err
	}
	return w, nil
}

// close ends run.
func (w *watcher) close() { w.file.Close() }

// run cancels the requests of connections whose clients disconnect, until close.
func (w *watcher) run() {
	var events [64]syscall.EpollEvent
	for {
		n := 0
		var failed error
		err := w.raw.Read(func(fd uintptr) bool {
			n, failed = syscall.EpollWait(int(fd), events[:], 0)
			return n > 0 || failed != nil && failed != syscall.EINTR
		})
		if err != nil || failed != nil {
			return
		}
		for i := range events[:n] {
			e := &events[i]
			id := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			w.mu.Lock()
			who := w.conns[id]
			w.mu.Unlock()
			if who != nil {
				who.onPeerClosed()
			}
		}
	}
}

// possible reports whether the connection can be watched.
func (d *watched) possible() bool {
	_, ok := d.c.raw.(syscall.Conn)
	return ok
}

// start watches the connection, if it is not watched yet. It reports whether it is
// watched.
func (d *watched) start() bool {
	if d.id != 0 {
		return true
	}
	w := d.c.srv.watcher
	w.mu.Lock()
	w.last++
	id := w.last
	w.conns[id] = d
	w.mu.Unlock()
	d.id = id
	event := syscall.EpollEvent{Events: syscall.EPOLLRDHUP | edgeTriggered, Fd: int32(id), Pad: int32(id >> 32)}
	if d.control(syscall.EPOLL_CTL_ADD, &event) != nil {
		d.forget()
		return false
	}
	return true
}

const edgeTriggered = 1 << 31

// stop ends the watch, because another server takes the connection over.
func (d *watched) stop() {
	if d.id != 0 {
		_ = d.control(syscall.EPOLL_CTL_DEL, new(syscall.EpollEvent))
		d.forget()
	}
}

// forget ends the watch of a connection that is closed or about to be closed.
func (d *watched) forget() {
	if d.id == 0 {
		return
	}
	w := d.c.srv.watcher
	w.mu.Lock()
	delete(w.conns, d.id)
	w.mu.Unlock()
	d.id = 0
}

func (d *watched) control(op int, event *syscall.EpollEvent) error {
	conn, err := d.c.raw.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = d.c.srv.watcher.raw.Control(func(epoll uintptr) {
		err := conn.Control(func(fd uintptr) { failed = syscall.EpollCtl(int(epoll), op, int(fd), event) })
		if err != nil {
			failed = err
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// follow sets the context that is canceled when the client disconnects.
func (d *watched) follow(ctx *requestContext) {
	d.mu.Lock()
	d.ctx = ctx
	ended := d.ended
	d.mu.Unlock()
	if ended != nil {
		ctx.endWith(ended)
	}
}

// onPeerClosed cancels the requests of a client that has disconnected.
func (d *watched) onPeerClosed() { d.endWith(context.Canceled) }

// endWith cancels the current and all later requests of the connection.
func (d *watched) endWith(cause error) {
	d.mu.Lock()
	if d.ended == nil {
		d.ended = cause
	}
	ctx := d.ctx
	d.mu.Unlock()
	if ctx != nil {
		ctx.endWith(cause)
	}
}
