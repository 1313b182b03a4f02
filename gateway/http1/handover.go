package http1

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// fallbackListener is the listener of the net/http server.
type fallbackListener struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newFallbackListener() *fallbackListener {
	return &fallbackListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// push hands a connection over; false means that the listener is closed.
func (o *fallbackListener) push(c net.Conn) bool {
	select {
	case o.conns <- c:
		return true
	case <-o.done:
		return false
	}
}

// Accept implements [net.Listener].
func (o *fallbackListener) Accept() (net.Conn, error) {
	select {
	case c := <-o.conns:
		return c, nil
	case <-o.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (o *fallbackListener) Close() error {
	o.once.Do(func() { close(o.done) })
	return nil
}

// Addr implements [net.Listener].
func (o *fallbackListener) Addr() net.Addr { return o.addr }

// handedConn is a connection from which some bytes were already read.
type handedConn struct {
	net.Conn
	unread []byte
	tls    *tls.ConnectionState // nil without TLS
}

// Read implements [net.Conn].
func (h *handedConn) Read(p []byte) (int, error) {
	if len(h.unread) > 0 {
		n := copy(p, h.unread)
		if h.unread = h.unread[n:]; len(h.unread) == 0 {
			h.unread = nil
		}
		return n, nil
	}
	return h.Conn.Read(p)
}

// CloseWrite is called by net/http before it closes a connection on which the client may
// still be sending.
func (h *handedConn) CloseWrite() error {
	if c, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// tlsKey is the context key of a TLS state that net/http cannot see.
type tlsKey struct{}

func withTLS(ctx context.Context, c net.Conn) context.Context {
	if h, ok := c.(*handedConn); ok && h.tls != nil {
		return context.WithValue(ctx, tlsKey{}, h.tls)
	}
	return ctx
}

// tellTLS sets the TLS state of the requests of such connections.
func tellTLS(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if state, ok := r.Context().Value(tlsKey{}).(*tls.ConnectionState); ok {
			r.TLS = state
		}
		h.ServeHTTP(w, r)
	})
}
