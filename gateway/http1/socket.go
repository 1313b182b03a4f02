package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Conn is a connection. One goroutine may read and one may write at a time; the other
// methods are those of the wrapped connection and are safe for concurrent use.
type Conn struct {
	net.Conn
	rc syscall.RawConn // nil means that ordinary calls are used

	in        transfer
	out       transfer
	read      func(fd uintptr) bool // allocated once
	write     func(fd uintptr) bool
	ask       func(fd uintptr) bool
	asked     bool
	peerSpoke bool // the peer closed or sent data before the request
	peek      [1]byte
}

// transfer is the state of one call.
type transfer struct {
	parts [3][]byte // the remaining bytes
	n     int       // bytes transferred
	errno syscall.Errno
	end   bool // end of the stream
}

// NewConn returns a Conn that wraps nc.
func NewConn(nc net.Conn) *Conn {
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
		return c // already closed: the first call returns the error
	}
	c.rc = rc
	c.read, c.write, c.ask = c.in.receive, c.out.send, c.lookSendAndWait
	return c
}

// Ordinary switches to the calls of the wrapped connection, which may extend the write
// deadline itself. It must not be called during a read or a write.
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

// WriteParts writes three parts, of which any may be empty, one after another: with one
// system call if the kernel accepts them all.
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

// errUnsolicitedData is returned by [Conn.WriteRequest] when it wrote nothing, because
// the peer has closed the connection or sent data before the request.
var errUnsolicitedData = errors.New("the peer has closed the connection, or has sent data before the request")

// CanProbe reports whether WriteRequest checks for unsolicited data and waits for the
// response.
func (c *Conn) CanProbe() bool { return c.rc != nil }

// WriteRequest is WriteParts for a request whose response is read next, on a connection
// without outstanding responses (decision FAST19). If the peer has closed the connection
// or sent data, nothing is written. After the write it waits until there is data to read,
// so that the read does not have to be repeated. When the wait ends for another reason,
// such as a deadline, the next Read returns the error. It must not be called during a
// read. Where probing is not possible (see CanProbe) it is WriteParts.
//
// The readiness notification is re-armed before the probe: data that arrived earlier is
// seen by the probe, data that arrives later ends the wait.
func (c *Conn) WriteRequest(a, b, d []byte) (int, error) {
	if c.rc == nil {
		return c.WriteParts(a, b, d)
	}
	c.out, c.asked, c.peerSpoke = transfer{parts: [3][]byte{a, b, d}}, false, false
	_ = c.rc.Read(c.ask)
	switch {
	case c.peerSpoke:
		return c.sent(errUnsolicitedData)
	case c.out.errno == 0 && c.out.left():
		return c.send() // the socket accepted no data, or no write was tried
	}
	return c.sent(nil)
}

func (c *Conn) send() (int, error) {
	return c.sent(c.rc.Write(c.write))
}

// sent returns the result of a write.
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

// left reports whether bytes remain.
func (t *transfer) left() bool {
	return len(t.parts[0])+len(t.parts[1])+len(t.parts[2]) > 0
}

// took removes the first n of the remaining bytes.
func (t *transfer) took(n int) {
	t.n += n
	for i := range t.parts {
		k := min(n, len(t.parts[i]))
		t.parts[i] = t.parts[i][k:]
		n -= k
	}
}
