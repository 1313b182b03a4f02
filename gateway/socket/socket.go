package socket

import (
	"io"
	"net"
	"os"
	"syscall"
)

// Conn is a connection. One goroutine may read and one may write at a time; the
// other methods are those of the connection beneath and may be called by anyone.
type Conn struct {
	net.Conn
	rc syscall.RawConn // nil: the ordinary calls are used

	in    transfer
	out   transfer
	read  func(fd uintptr) bool // made once
	write func(fd uintptr) bool
}

// transfer is one call under way.
type transfer struct {
	parts [3][]byte // what is left
	n     int       // bytes moved
	errno syscall.Errno
	end   bool // of the stream
}

// New returns a Conn over nc.
func New(nc net.Conn) *Conn {
	c := &Conn{Conn: nc}
	tcp, ok := nc.(*net.TCPConn)
	if !direct || !ok {
		return c
	}
	rc, err := tcp.SyscallConn()
	if err != nil {
		return c // closed already: the first call says so
	}
	c.rc = rc
	c.read, c.write = c.in.receive, c.out.send
	return c
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	if c.rc == nil || len(p) == 0 {
		return c.Conn.Read(p)
	}
	c.in = transfer{parts: [3][]byte{p}}
	err := c.rc.Read(c.read)
	c.in.parts[0] = nil
	switch {
	case err != nil:
		return 0, err
	case c.in.errno != 0:
		return 0, c.failed("read", c.in.errno)
	case c.in.end:
		return 0, io.EOF
	}
	return c.in.n, nil
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	if c.rc == nil {
		return c.Conn.Write(p)
	}
	c.out = transfer{parts: [3][]byte{p}}
	return c.send()
}

// WriteParts writes three pieces, of which any may be empty, one after another:
// with one system call where the kernel takes them all.
func (c *Conn) WriteParts(a, b, d []byte) (int, error) {
	if c.rc == nil {
		buffers := net.Buffers{a, b, d}
		n, err := buffers.WriteTo(c.Conn)
		return int(n), err
	}
	c.out = transfer{parts: [3][]byte{a, b, d}}
	return c.send()
}

func (c *Conn) send() (int, error) {
	err := c.rc.Write(c.write)
	c.out.parts = [3][]byte{}
	if err == nil && c.out.errno != 0 {
		err = c.failed("write", c.out.errno)
	}
	return c.out.n, err
}

func (c *Conn) failed(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
}

// took removes n bytes from the front of what is left.
func (t *transfer) took(n int) {
	t.n += n
	for i := range t.parts {
		k := min(n, len(t.parts[i]))
		t.parts[i] = t.parts[i][k:]
		n -= k
	}
}
