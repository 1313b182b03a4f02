package http1

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// flushTime is the time for which an HTTP/2 connection stays open after its last
// response, so that net/http can flush its buffer.
const flushTime = time.Second

// check reports whether an established TLS connection may still be used. Each call of
// [Server.Recheck] creates a new check; checks are compared by address.
type check struct {
	valid func(*tls.ConnectionState) bool
}

// Recheck closes the TLS connections for which valid returns false: idle ones at once,
// the others after their current request. It applies to connections
// whose handshake began before the call, here and in the fallback. valid is called for
// each connection, by many goroutines, until the next call of Recheck.
func (s *Server) Recheck(valid func(*tls.ConnectionState) bool) {
	current := &check{valid}
	// The order is that of a shutdown: the check is stored before the states of
	// connections are loaded, and a connection stores idle before it loads the check.
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
			continue // a busy connection loads the check after its request
		}
		if c.state.CompareAndSwap(idle, severed) || c.state.CompareAndSwap(fresh, severed) {
			c.raw.Close()
		}
	}
	s.passed.closeIdle(current)
}

// usable reports whether the connection may serve another request.
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

// watch tracks the TLS connections of the fallback, and rejects requests on those that
// may not be used.
func (p *passed) watch(fallback *http.Server) {
	p.conns = make(map[net.Conn]*passedConn)
	handler, connState, connContext := fallback.Handler, fallback.ConnState, fallback.ConnContext
	fallback.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(passedKey{}).(*passedConn); ok && r.TLS != nil && !p.usable(c, r.TLS) {
			refuse(w, r, c)
			return
		}
		handler.ServeHTTP(w, r)
	})
	fallback.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if connContext != nil {
			ctx = connContext(ctx, conn)
		}
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

// refuse rejects a request on a connection that may not be used. Other HTTP/2 requests on
// the connection complete, and GOAWAY tells the client to start no more.
func refuse(w http.ResponseWriter, r *http.Request, c *passedConn) {
	if r.ProtoMajor < 2 {
		c.Close()
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Connection", "close") // net/http sends GOAWAY
	http.Error(w, "the client certificate of this connection is no longer accepted", http.StatusMisdirectedRequest)
}

// usable reports whether a connection may serve another request.
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

// change tracks the state of a connection. An idle connection that may not be used is
// closed.
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

// closeIdle closes the idle connections that may not be used.
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

// stateOf returns the TLS state of a connection that has served a request.
func stateOf(conn net.Conn) *tls.ConnectionState {
	switch c := conn.(type) {
	case *handedConn:
		return c.tls
	case *tls.Conn:
		state := c.ConnectionState()
		return &state
	}
	return nil
}
