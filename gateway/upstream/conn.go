package upstream

import (
	"io"
	"net"
	"sync"
	"time"

	"svc/gateway/http1"
)

const (
	// smallBuffer is the buffer of an idle connection, and bigBuffer the buffer that it
	// borrows while much data arrives. Idle streams, of which there may be thousands,
	// thus use little memory.
	smallBuffer = 4 << 10
	bigBuffer   = 64 << 10
)

// bigBuffers is a pool of memory, not of state.
var bigBuffers = sync.Pool{New: func() any { return new([bigBuffer]byte) }}

// conn is one connection. Only one exchange at a time uses it; other goroutines may call
// only abort.
type conn struct {
	nc    net.Conn    // the connection that carries HTTP: the TLS layer or sock
	raw   net.Conn    // the TCP connection
	sock  *http1.Conn // raw without TLS, else nil
	probe *probe      // nil where there is none, or where sock probes by itself
	// secured is nil without TLS, and used only by the reader of nc.
	secured *closeNotifyConn

	small []byte
	big   *[bigBuffer]byte // nil unless borrowed
	r, w  int              // unread bytes in buf()
	burst bool             // the last read filled the buffer, so that more data is likely
	rerr  error            // read error that was returned together with data

	armed time.Duration // deadline on the pool's clock; 0 is none

	uses      int           // exchanges that ended without an error
	made      time.Duration // time of creation
	idleSince time.Duration
	keepAlive time.Duration // how long the upstream keeps it open; 0 when not known

	abortFunc func() // closes raw; created once, so that an exchange allocates nothing
}

func newConn(nc, raw net.Conn, now time.Duration) *conn {
	cn := &conn{nc: nc, raw: raw, small: make([]byte, smallBuffer), made: now}
	if nc == raw {
		cn.sock = http1.NewConn(raw)
		cn.nc = cn.sock
	}
	if cn.sock == nil || !cn.sock.CanProbe() {
		cn.probe = newProbe(raw)
	}
	cn.abortFunc = func() { cn.raw.Close() }
	return cn
}

func (cn *conn) buf() []byte {
	if cn.big != nil {
		return cn.big[:]
	}
	return cn.small
}

// unread returns the data that was received and not consumed.
func (cn *conn) unread() []byte { return cn.buf()[cn.r:cn.w] }

// arm sets the read and write deadline to the time until, on the pool's clock, or up to
// slack later; zero means none. Setting a timer costs more than reading the clock, so a
// deadline that is near enough is kept.
func (cn *conn) arm(p *pool, until, slack time.Duration) {
	if until == 0 {
		if cn.armed != 0 {
			cn.armed = 0
			cn.raw.SetDeadline(time.Time{})
		}
		return
	}
	if cn.armed >= until && cn.armed <= until+slack {
		return
	}
	cn.armed = until + slack
	cn.raw.SetDeadline(p.epoch.Add(cn.armed))
}

// armFor is arm for a wait that begins now; zero means no limit.
func (cn *conn) armFor(p *pool, wait time.Duration) {
	if wait <= 0 {
		cn.arm(p, 0, 0)
		return
	}
	cn.arm(p, p.now()+wait, wait/8)
}

// fill reads more data into the buffer, after the unread data, and waits for it. It
// returns an error only when nothing was read.
func (cn *conn) fill() error {
	if cn.rerr != nil {
		return cn.rerr
	}
	if cn.r == cn.w {
		cn.r, cn.w = 0, 0
		if cn.big != nil && !cn.burst {
			cn.dropBig()
		} else if cn.big == nil && cn.burst {
			cn.big = bigBuffers.Get().(*[bigBuffer]byte)
		}
	} else if cn.w == len(cn.buf()) {
		cn.makeRoom()
	}
	buf := cn.buf()
	if cn.w == len(buf) {
		return io.ErrShortBuffer // callers keep the unread data well below the size of the buffer
	}
	n, err := cn.read(buf[cn.w:])
	cn.burst = cn.w+n >= smallBuffer
	cn.w += n
	return err
}

func (cn *conn) makeRoom() {
	if cn.big == nil {
		big := bigBuffers.Get().(*[bigBuffer]byte)
		cn.w = copy(big[:], cn.small[cn.r:cn.w])
		cn.big = big
	} else {
		cn.w = copy(cn.big[:], cn.big[cn.r:cn.w])
	}
	cn.r = 0
}

// read reads into p, waits for at least one byte, and returns either bytes or an
// error.
func (cn *conn) read(p []byte) (int, error) {
	if cn.rerr != nil {
		return 0, cn.rerr
	}
	for range 16 {
		n, err := cn.nc.Read(p)
		if err == io.EOF && cn.secured != nil && cn.secured.ended {
			err = io.ErrUnexpectedEOF
		}
		if n > 0 {
			cn.rerr = err
			return n, nil
		}
		if err != nil {
			cn.rerr = err
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}

// write sends a request, with one call if the body is small or the connection is plain.
// It returns the number of bytes that were accepted.
func (cn *conn) write(out *writeBuffer, body []byte) (int64, error) {
	if out.gathered {
		body = nil // the buffer already contains it
	}
	switch {
	case cn.sock != nil && cn.uses == 0:
		// The peer may have sent a response already, as an overloaded server does.
		n, err := cn.sock.WriteParts(out.b, body, nil)
		return int64(n), err
	case cn.sock != nil:
		n, err := cn.sock.WriteRequest(out.b, body, nil)
		return int64(n), err
	case out.gathered:
		n, err := cn.nc.Write(out.b)
		return int64(n), err
	}
	bufs := net.Buffers{out.b, body}
	return bufs.WriteTo(cn.nc)
}

func (cn *conn) dropBig() {
	if cn.big != nil {
		http1.Released(cn.big[:])
		bigBuffers.Put(cn.big)
		cn.big = nil
	}
}

// reset prepares the connection for the next exchange. It reports whether the connection
// can be reused: everything received was consumed, and no error occurred.
func (cn *conn) reset() bool {
	clean := cn.r == cn.w && cn.rerr == nil
	cn.dropBig()
	cn.r, cn.w, cn.burst = 0, 0, false
	cn.uses++
	return clean
}

// close closes the connection at once.
func (cn *conn) close() {
	cn.dropBig()
	cn.raw.Close()
}

// closeIdle closes an idle connection; a TLS peer gets a close_notify. It does not block,
// because the send buffer is empty.
func (cn *conn) closeIdle() {
	cn.nc.Close()
	cn.raw.Close()
}
