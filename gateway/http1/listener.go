package http1

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	// socketPiece is the number of bytes that one timeout covers.
	socketPiece = 256 << 10
	// writeSlack is the fraction of the timeout by which a deadline may be late, so that
	// one timer serves many writes.
	writeSlack = 4
)

// Limits are the limits of the connections of a [Listener].
type Limits struct {
	// WriteTimeout bounds the time in which a peer reads writePiece bytes. A write
	// deadline takes precedence until it is set to zero. 0 means no limit.
	WriteTimeout time.Duration
	// PerAddress returns the number of connections that may be open from an address, 0
	// for any number. The addresses of an IPv6 network of 64 bits count as one. nil means
	// no limit.
	PerAddress func(netip.Addr) int
	// Refused is called for each connection above the limit; may be nil.
	Refused func(addr netip.Addr, limit int)
	// Failed is called with each error of Accept, except after a Close; may be nil.
	Failed func(error)
}

// Listener accepts the connections of another listener, bounded by its limits.
type Listener struct {
	net.Listener
	limits Limits

	mu   sync.Mutex
	open map[netip.Prefix]int
}

// NewListener returns a listener for the connections of ln.
func NewListener(ln net.Listener, limits Limits) *Listener {
	return &Listener{Listener: ln, limits: limits, open: make(map[netip.Prefix]int)}
}

// Accept implements [net.Listener]. A connection above the limit is closed, and Accept
// waits for the next one.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			if l.limits.Failed != nil && !errors.Is(err, net.ErrClosed) {
				l.limits.Failed(err)
			}
			return nil, err
		}
		release, ok := l.enter(nc.RemoteAddr())
		if ok {
			return &accepted{Conn: nc, timeout: l.limits.WriteTimeout, release: release}, nil
		}
		nc.Close()
	}
}

// enter counts a connection from an address; false means that the limit is exceeded.
func (l *Listener) enter(remote net.Addr) (release func(), ok bool) {
	tcp, isTCP := remote.(*net.TCPAddr)
	if !isTCP || l.limits.PerAddress == nil {
		return func() {}, true
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	limit := l.limits.PerAddress(addr)
	if limit <= 0 {
		return func() {}, true
	}
	key := Network(addr)
	l.mu.Lock()
	if l.open[key] >= limit {
		l.mu.Unlock()
		if l.limits.Refused != nil {
			l.limits.Refused(addr, limit)
		}
		return nil, false
	}
	l.open[key]++
	l.mu.Unlock()
	return sync.OnceFunc(func() { l.leave(key) }), true
}

func (l *Listener) leave(key netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key]--; l.open[key] == 0 {
		delete(l.open, key)
	}
}

// accepted is a connection whose write deadline moves as its peer reads.
type accepted struct {
	net.Conn
	timeout time.Duration
	release func()

	mu    sync.Mutex
	set   bool      // the write deadline was set by the caller
	armed time.Time // the deadline that Write has set
}

// Write implements [net.Conn].
func (c *accepted) Write(p []byte) (n int, err error) {
	for {
		piece := p[:min(len(p), socketPiece)]
		c.arm()
		k, err := c.Conn.Write(piece)
		n += k
		p = p[k:]
		if err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// arm extends the deadline, unless the current one is late enough.
func (c *accepted) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set || c.timeout <= 0 {
		return
	}
	until := time.Now().Add(c.timeout)
	if c.armed.Before(until) {
		c.armed = until.Add(c.timeout / writeSlack)
		_ = c.Conn.SetWriteDeadline(c.armed) // on a closed connection, the write returns the error
	}
}

// SetWriteDeadline implements [net.Conn].
func (c *accepted) SetWriteDeadline(t time.Time) error {
	c.taken(t)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *accepted) SetDeadline(t time.Time) error {
	c.taken(t)
	return c.Conn.SetDeadline(t)
}

func (c *accepted) taken(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set, c.armed = !t.IsZero(), time.Time{}
}

// Close implements [net.Conn].
func (c *accepted) Close() error {
	c.release()
	return c.Conn.Close()
}

// CloseWrite ends the writing side.
func (c *accepted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SyscallConn implements [syscall.Conn].
func (c *accepted) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
