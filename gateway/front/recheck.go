package front

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// flushTime is how long an HTTP/2 connection that must end stays open after its
// last response, so that net/http flushes what it has buffered.
const flushTime = time.Second

// check tells whether a TLS connection that was made earlier may still be used.
// Each call of [Server.Recheck] makes a new one, and they are compared by
// address.
type check struct {
	valid func(*tls.ConnectionState) bool
}

// Recheck closes the TLS connections for which valid returns false: those
// without a request at once, the others after the request that they serve. It
// holds for connections whose handshake began before, here and in the fallback.
// valid is called for each connection, by many goroutines, until the next call of
// Recheck.
func (s *Server) Recheck(valid func(*tls.ConnectionState) bool) {
	current := &check{valid}
	// The order is that of a shutdown: a connection first becomes idle and then
	// looks at the check.
	s.check.Store(current)
	s.mu.Lock()
	conns := make(map[*conn]*tls.ConnectionState, len(s.conns))
	for c := range s.conns {
		if c.tls != nil {
			conns[c] = c.tls
		}
	}
	s.mu.Unlock()
	for c, state := range conns {
		if c.state.Load() == busy || valid(state) {
			continue // a busy one looks at the check after its request
		}
		if c.state.CompareAndSwap(idle, severed) || c.state.CompareAndSwap(fresh, severed) {
			c.raw.Close()
		}
	}
	s.passed.closeIdle(current)
}

// usable tells whether the connection may serve another request.
func (c *conn) usable() bool {
	current := c.srv.check.Load()
	if current == c.checked {
		return true
	}
	if c.tls != nil && !current.valid(c.tls) {
		return false
	}
	c.checked = current
	return true
}

// passed are the TLS connections that net/http serves.
type passed struct {
	srv *Server

	mu    sync.Mutex
	conns map[net.Conn]*passedConn
}

type passedConn struct {
	net.Conn
	checked atomic.Pointer[check]
	idle    bool // guarded by passed.mu
}

// passedKey is the context key of a passedConn.
type passedKey struct{}

// watch follows the TLS connections of the fallback, and lets its handler serve
// the usable ones alone.
func (p *passed) watch(fallback *http.Server) {
	p.conns = make(map[net.Conn]*passedConn)
	handler, connState := fallback.Handler, fallback.ConnState
	fallback.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(passedKey{}).(*passedConn); ok && r.TLS != nil && !p.usable(c, r.TLS) {
			refuse(w, r, c)
			return
		}
		handler.ServeHTTP(w, r)
	})
	fallback.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		c := &passedConn{Conn: conn}
		p.mu.Lock()
		p.conns[conn] = c
		p.mu.Unlock()
		return context.WithValue(withTLS(ctx, conn), passedKey{}, c)
	}
	fallback.ConnState = func(conn net.Conn, state http.ConnState) {
		p.change(conn, state)
		if connState != nil {
			connState(conn, state)
		}
	}
}

// refuse ends the use of a connection by a request that came too late. With
// HTTP/2 other requests may still run on it: they end in order, and the client is
// told to begin no more.
func refuse(w http.ResponseWriter, r *http.Request, c *passedConn) {
	if r.ProtoMajor < 2 {
		c.Close()
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Connection", "close") // net/http sends GOAWAY
	http.Error(w, "the client certificate of this connection is no longer accepted", http.StatusMisdirectedRequest)
}

// usable tells whether a connection may serve another request.
func (p *passed) usable(c *passedConn, state *tls.ConnectionState) bool {
	current := p.srv.check.Load()
	if c.checked.Load() == current {
		return true
	}
	if !current.valid(state) {
		return false
	}
	c.checked.Store(current)
	return true
}

// change follows the state of a connection. One that is idle and must not be used
// any more is closed.
func (p *passed) change(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	c := p.conns[conn]
	if c != nil {
		c.idle = state == http.StateIdle
	}
	if state == http.StateClosed || state == http.StateHijacked {
		delete(p.conns, conn)
	}
	p.mu.Unlock()
	if c == nil || state != http.StateIdle {
		return
	}
	switch tlsState := stateOf(conn); {
	case tlsState == nil || p.usable(c, tlsState):
	case tlsState.NegotiatedProtocol == "h2":
		time.AfterFunc(flushTime, func() { p.closeIf(c) })
	default:
		conn.Close()
	}
}

// closeIf closes a connection if it is still idle.
func (p *passed) closeIf(c *passedConn) {
	p.mu.Lock()
	still := c.idle && p.conns[c.Conn] == c
	p.mu.Unlock()
	if still {
		c.Close()
	}
}

// closeIdle closes the idle connections that must not be used any more.
func (p *passed) closeIdle(current *check) {
	p.mu.Lock()
	var waiting []*passedConn
	for _, c := range p.conns {
		if c.idle {
			waiting = append(waiting, c)
		}
	}
	p.mu.Unlock()
	for _, c := range waiting {
		if state := stateOf(c.Conn); state != nil && !current.valid(state) {
			p.closeIf(c)
		}
	}
}

// stateOf returns the TLS state of a connection on which a request was served.
func stateOf(conn net.Conn) *tls.ConnectionState {
	switch c := conn.(type) {
	case *handed:
		return c.tls
	case *tls.Conn:
		state := c.ConnectionState()
		return &state
	}
	return nil
}
