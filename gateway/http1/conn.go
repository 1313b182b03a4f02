package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// The states of a connection for a shutdown.
const (
	fresh   int32 = iota // no byte was received
	busy                 // a request is being read or answered
	idle                 // between two requests
	severed              // closed by a shutdown
)

const (
	// slack is the fraction of a timeout by which a deadline may be late, so that a timer
	// is set once for many requests.
	slack = 4
	// maxBlank is the number of bytes of line breaks that are skipped after a request,
	// because some clients end a body with a line break. net/http skips as many.
	maxBlank = 4
	// lingerTime is the time that a client has to read its response before a connection
	// on which it is still sending is closed.
	lingerTime = 500 * time.Millisecond
)

// conn is one connection. Only its goroutine uses it; other goroutines may call only cut
// and gone.
type conn struct {
	srv    *Server
	raw    net.Conn  // as accepted
	sock   *Conn     // wraps raw
	nc     net.Conn  // the connection that carries HTTP: the TLS layer, or sock
	rd     io.Reader // nc
	remote string
	tls    *tls.ConnectionState // nil without TLS
	// checked is the check of TLS connections that this connection has passed.
	checked *check
	made    time.Duration
	state   atomic.Int32
	partial atomic.Int32 // noPart, headPart or cutPart
	watch   watched

	buf  []byte
	r, w int // unread bytes

	readArmed, writeArmed time.Duration // configured deadlines, 0 for none
	readSet, writeSet     bool          // the handler has set a deadline

	head  head
	began time.Duration // start of the request
	body  body
	resp  response

	header  http.Header
	url     url.URL
	request *http.Request
	ctx     *requestContext

	closing bool // close after this response
	linger  bool // the client may still be sending
}

// The values of conn.partial: whether the rest of a header is awaited, which a shutdown
// does not wait for any longer than for the first byte of a new connection.
const (
	noPart int32 = iota
	headPart
	cutPart
)

func newConn(s *Server, raw net.Conn) *conn {
	c := &conn{srv: s, raw: raw, sock: NewConn(raw), remote: raw.RemoteAddr().String(), made: s.now()}
	c.nc, c.rd = c.sock, c.sock
	c.watch.c = c
	return c
}

// serve serves the connection until it ends or is handed over.
func (c *conn) serve() {
	defer c.srv.forget(c)
	if !c.watch.possible() {
		c.handOverUnread()
		return
	}
	if c.srv.opts.TLS != nil && !c.secure() {
		return
	}
	c.buf = make([]byte, maxHead)
	c.head.lines = c.srv.lines
	c.resp.header, c.header = make(http.Header, 8), make(http.Header, 16)
	c.body.c, c.resp.c = c, c
	for {
		n, is := c.readHead()
		if is == incomplete {
			c.nc.Close()
			return
		}
		if is == fallback || !c.watch.start() {
			c.handOver()
			return
		}
		if !c.usable() {
			c.nc.Close()
			return
		}
		c.r += n
		if !c.answer() {
			return
		}
		// Store state = idle before loading draining and the check. Shutdown and Recheck
		// store draining, or the check, before they load state. So at least one side sees
		// the other's store, and no idle connection is missed.
		c.state.Store(idle)
		if c.srv.draining.Load() || !c.usable() {
			c.nc.Close()
			return
		}
	}
}

// secure performs the TLS handshake. A connection that negotiated another protocol is
// handed over.
func (c *conn) secure() bool {
	c.checked = c.srv.check.Load()
	layer := tls.Server(c.sock, c.srv.opts.TLS)
	ctx := context.Background()
	if d := c.srv.opts.Fallback.ReadHeaderTimeout; d > 0 {
		c.sock.SetDeadline(time.Now().Add(d))
	}
	if err := layer.HandshakeContext(ctx); err != nil {
		c.srv.logf("http: TLS handshake error from %s: %v", c.remote, plainHTTP(c.sock, err))
		c.sock.Close()
		return false
	}
	c.sock.SetDeadline(time.Time{})
	c.nc, c.rd = layer, layer
	state := layer.ConnectionState()
	c.srv.mu.Lock()
	c.tls = &state
	c.srv.mu.Unlock()
	if !c.usable() { // the check may have changed during the handshake
		c.nc.Close()
		return false
	}
	if p := state.NegotiatedProtocol; p != "" && p != "http/1.1" {
		c.handOver()
		return false
	}
	return true
}

// plainHTTP sends an error response to a client that sent HTTP to a TLS port, and returns
// the error to log.
func plainHTTP(conn net.Conn, err error) error {
	var header tls.RecordHeaderError
	if !errors.As(err, &header) || header.Conn == nil {
		return err
	}
	switch string(header.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		_, _ = io.WriteString(conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
		return errors.New("client sent an HTTP request to an HTTPS server")
	}
	return err
}

// readHead waits for the header of the next request. incomplete means that the connection
// has ended.
func (c *conn) readHead() (int, verdict) {
	s := c.srv
	if c.r == c.w {
		c.r, c.w = 0, 0
		if c.state.Load() == fresh {
			c.armReadFor(s.opts.Fallback.ReadHeaderTimeout, 0)
		} else {
			c.armReadFor(s.opts.Fallback.IdleTimeout, s.opts.Fallback.IdleTimeout/slack)
		}
	} else {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	Released(c.buf[c.w:])
	c.head.reset()
	waits := false // the rest of a header is awaited
	// Line breaks after a request are skipped. As in net/http, maxBlank bytes must have
	// arrived before the connection counts as a fallback, the skipped ones included, and at
	// least one byte after these.
	blank, least := 0, 1
	if c.state.Load() != fresh {
		blank, least = maxBlank, maxBlank
	}
	for {
		if c.w > 0 {
			if state := c.state.Load(); state != busy && !c.state.CompareAndSwap(state, busy) {
				return 0, incomplete // a shutdown closed the connection first
			}
			n, is := c.head.parse(c.buf[:c.w])
			if is == fallback && blank > 0 && (c.buf[0] == '\r' || c.buf[0] == '\n') {
				blank--
				least = max(least-1, 1)
				c.w = copy(c.buf, c.buf[1:c.w])
				if c.w > 0 {
					continue
				}
				// The connection is idle again; the order is as in serve.
				if c.state.Store(idle); s.draining.Load() || !c.usable() {
					return 0, incomplete
				}
				is = incomplete
			}
			if is == fast || is == fallback && c.w >= least {
				if waits && !c.partial.CompareAndSwap(headPart, noPart) {
					return 0, incomplete // a shutdown set a read deadline
				}
				return n, is
			}
			if !waits && c.w > 0 {
				waits = true
				c.armReadFor(s.opts.Fallback.ReadHeaderTimeout, s.opts.Fallback.ReadHeaderTimeout/slack)
				c.partial.Store(headPart) // after the deadline, which a shutdown replaces
			}
		}
		n, err := c.rd.Read(c.buf[c.w:])
		c.w += n
		if err != nil && n == 0 {
			if errors.Is(err, io.EOF) && c.w >= least {
				return 0, fallback // net/http responds to an incomplete header
			}
			return 0, incomplete
		}
	}
}

// answer runs the handler for the request, and reports whether the connection can be
// reused.
func (c *conn) answer() (again bool) {
	c.began = c.srv.now()
	c.closing, c.linger, c.readSet, c.writeSet = false, false, false, false
	c.body.begin(c.head.length)
	c.resp.begin()
	r := c.prepare()
	if !c.run(r) {
		c.nc.Close()
		return false
	}
	c.resp.finish()
	if !c.ctx.leave() {
		c.ctx, c.request = nil, nil
	}
	if c.readSet {
		c.readArmed = -1 // the handler may have set any deadline
	}
	if c.writeSet {
		_ = c.resp.SetWriteDeadline(time.Time{})
	}
	if c.closing {
		c.end()
		return false
	}
	return true
}

// prepare creates the request for the handler.
func (c *conn) prepare() *http.Request {
	c.head.header(c.header)
	if c.ctx == nil {
		c.ctx = &requestContext{server: c.srv.opts.Fallback, local: c.raw.LocalAddr()}
		c.watch.follow(c.ctx)
		c.request = new(http.Request).WithContext(c.ctx)
	}
	r := c.request
	path := c.head.lines[c.head.at].path
	c.url = url.URL{Path: path}
	r.Method, r.URL, r.Proto, r.ProtoMajor, r.ProtoMinor = http.MethodPost, &c.url, "HTTP/1.1", 1, 1
	r.Header, r.Host, r.RequestURI, r.RemoteAddr = c.header, c.head.host, path, c.remote
	r.ContentLength, r.TransferEncoding, r.Close, r.TLS = c.head.length, nil, c.head.close, c.tls
	r.Form, r.PostForm, r.MultipartForm, r.Trailer, r.Pattern = nil, nil, nil, nil, ""
	r.Body = &c.body
	if c.head.length == 0 {
		r.Body = http.NoBody
	}
	return r
}

// run calls the handler. A panic ends the connection, not the process.
func (c *conn) run(r *http.Request) (ok bool) {
	defer func() {
		if ok {
			return
		}
		if err := recover(); err != nil && err != http.ErrAbortHandler {
			c.srv.logf("http: panic serving %s: %v\n%s", c.remote, err, debug.Stack())
		}
		c.ctx.end()
	}()
	c.srv.opts.Handler.ServeHTTP(&c.resp, r)
	return true
}

// write writes a part of a response. Long data is written in pieces, each with its own
// deadline.
func (c *conn) write(a, b, d []byte) error {
	for len(b) > writePiece {
		if err := c.writePiece(a, b[:writePiece], nil); err != nil {
			return err
		}
		a, b = nil, b[writePiece:]
	}
	return c.writePiece(a, b, d)
}

func (c *conn) writePiece(a, b, d []byte) (err error) {
	if !c.writeSet {
		c.armWrite(c.srv.now()+c.srv.writeTimeout, c.srv.writeTimeout/slack)
	}
	switch {
	case len(b)+len(d) == 0:
		_, err = c.nc.Write(a)
	case c.tls == nil:
		_, err = c.sock.WriteParts(a, b, d)
	default:
		for _, part := range [...][]byte{a, b, d} {
			if _, err = c.nc.Write(part); err != nil {
				break
			}
		}
	}
	return err
}

// armReadFor sets the read deadline to d from now, or up to slack later; zero means none.
func (c *conn) armReadFor(d, slack time.Duration) {
	if d <= 0 {
		if c.readArmed != 0 {
			c.readArmed = 0
			c.nc.SetReadDeadline(time.Time{})
		}
		return
	}
	c.armRead(c.srv.now()+d, slack)
}

// armRead sets the read deadline to a time of the server, or up to slack later. Setting a
// timer costs more than reading the clock, so a deadline that is near enough is kept.
func (c *conn) armRead(until, slack time.Duration) {
	if c.readArmed >= until && c.readArmed <= until+slack {
		return
	}
	c.readArmed = until + slack
	c.nc.SetReadDeadline(c.srv.epoch.Add(c.readArmed))
}

func (c *conn) armWrite(until, slack time.Duration) {
	if c.writeArmed >= until && c.writeArmed <= until+slack {
		return
	}
	c.writeArmed = until + slack
	c.nc.SetWriteDeadline(c.srv.epoch.Add(c.writeArmed))
}

// end closes the connection after a response. While the client may still be sending, an
// immediate close would reset the connection and discard the unread response.
func (c *conn) end() {
	if c.linger && c.resp.err == nil {
		type halfCloser interface{ CloseWrite() error }
		half, ok := c.nc.(halfCloser)
		if !ok {
			half, ok = c.raw.(halfCloser)
		}
		if ok && half.CloseWrite() == nil {
			// Data is read for the whole time, however much arrives: many clients send
			// the whole body before they read the response.
			c.raw.SetReadDeadline(time.Now().Add(lingerTime))
			for {
				if _, err := c.sock.Read(c.buf); err != nil {
					break
				}
			}
		}
	}
	c.nc.Close()
}

// handOver passes the connection, with the bytes that were read, to net/http. From then
// on the fallback closes it in a shutdown or after a check: here it is busy until it is
// removed.
func (c *conn) handOver() {
	c.watch.stop()
	if c.state.Load() != busy && !c.state.CompareAndSwap(fresh, busy) {
		c.nc.Close() // a shutdown or a check closed it first
		return
	}
	_ = c.nc.SetDeadline(time.Time{})
	conn := net.Conn(c.raw)
	if c.tls != nil {
		conn = c.nc
		c.sock.Ordinary() // the fallback reads it with ordinary calls
	}
	if c.tls == nil || c.w > c.r {
		conn = &handedConn{Conn: conn, unread: append([]byte(nil), c.buf[c.r:c.w]...), tls: c.tls}
	}
	if !c.srv.fallback.push(conn) {
		c.nc.Close()
	}
}

// handOverUnread passes a connection that is not a kernel socket to net/http.
func (c *conn) handOverUnread() {
	conn := c.raw
	if c.srv.opts.TLS != nil {
		conn = tls.Server(conn, c.srv.opts.TLS)
	}
	if !c.srv.fallback.push(conn) {
		c.raw.Close()
	}
}

// cut closes the connection from another goroutine.
func (c *conn) cut() {
	c.raw.Close()
	c.watch.onPeerClosed()
}
