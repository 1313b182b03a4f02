package socket

import (
	"errors"
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
	ask   func(fd uintptr) bool
	asked bool
	spoke bool // before it was asked
	peek  [1]byte
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
	beneath := nc
	if a, ok := nc.(*accepted); ok {
		beneath = a.Conn
	}
	tcp, ok := beneath.(*net.TCPConn)
	if !direct || !ok {
		return c
	}
	rc, err := tcp.SyscallConn()
	if err != nil {
		return c // closed already: the first call says so
	}
	c.rc = rc
	c.read, c.write, c.ask = c.in.receive, c.out.send, c.lookSendAndWait
	return c
}

// Ordinary makes calls those of the connection beneath from now on, whose write
// deadline may move on by itself. Nobody may read or write meanwhile.
func (c *Conn) Ordinary() { c.rc = nil }

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
		if len(b)+len(d) == 0 {
			return c.Conn.Write(a)
		}
		buffers := net.Buffers{a, b, d}
		n, err := buffers.WriteTo(c.Conn)
		return int(n), err
	}
	c.out = transfer{parts: [3][]byte{a, b, d}}
	return c.send()
}

// ErrNotSilent is returned by [Conn.Ask], which then wrote nothing.
var ErrNotSilent = errors.New("the peer has closed the connection, or has sent what nobody asked for")

// Asks reports whether Ask looks before it writes, and waits.
func (c *Conn) Asks() bool { return c.rc != nil }

// Ask is WriteParts for a request whose answer is read next, on a connection on
// which nothing is outstanding. A peer that is not silent is not asked. When all
// is written it waits until there is something to read, so that no read is made in
// vain; when the wait ends for another reason, as that of a deadline, the next Read
// says so. Nobody may read meanwhile. Where it cannot do so (see Asks) it is
// WriteParts.
//
// The interest in what comes is renewed before the look: what came before is seen
// by it, what comes later ends the wait.
func (c *Conn) Ask(a, b, d []byte) (int, error) {
	if c.rc == nil {
		return c.WriteParts(a, b, d)
	}
	c.out, c.asked, c.spoke = transfer{parts: [3][]byte{a, b, d}}, false, false
	_ = c.rc.Read(c.ask)
	switch {
	case c.spoke:
		return c.sent(ErrNotSilent)
	case c.out.errno == 0 && c.out.left():
		return c.send() // there was no room, or it was not even tried
	}
	return c.sent(nil)
}

func (c *Conn) send() (int, error) {
	return c.sent(c.rc.Write(c.write))
}

// sent returns what became of a write.
func (c *Conn) sent(err error) (int, error) {
	c.out.parts = [3][]byte{}
	if err == nil && c.out.errno != 0 {
		err = c.failed("write", c.out.errno)
	}
	return c.out.n, err
}

func (c *Conn) failed(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
}

// left reports whether something is left.
func (t *transfer) left() bool {
	return len(t.parts[0])+len(t.parts[1])+len(t.parts[2]) > 0
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
