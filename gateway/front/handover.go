package front

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// others is the listener that the connections for net/http come from.
type others struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newOthers() *others {
	return &others{conns: make(chan net.Conn), done: make(chan struct{})}
}

// push hands a connection over; false says that nobody takes it any more.
func (o *others) push(c net.Conn) bool {
	select {
	case o.conns <- c:
		return true
	case <-o.done:
		return false
	}
}

// Accept implements [net.Listener].
func (o *others) Accept() (net.Conn, error) {
	select {
	case c := <-o.conns:
		return c, nil
	case <-o.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (o *others) Close() error {
	o.once.Do(func() { close(o.done) })
	return nil
}

// Addr implements [net.Listener].
func (o *others) Addr() net.Addr { return o.addr }

// handed is a connection of which something was read already.
type handed struct {
	net.Conn
	unread []byte
	tls    *tls.ConnectionState // nil without TLS
}

// Read implements [net.Conn].
func (h *handed) Read(p []byte) (int, error) {
	if len(h.unread) > 0 {
		n := copy(p, h.unread)
		if h.unread = h.unread[n:]; len(h.unread) == 0 {
			h.unread = nil
		}
		return n, nil
	}
	return h.Conn.Read(p)
}

// CloseWrite is what net/http asks for before it closes a connection on which the
// client may still be sending.
func (h *handed) CloseWrite() error {
	if c, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// tlsKey is where the TLS state of a connection stands that net/http cannot see.
type tlsKey struct{}

func withTLS(ctx context.Context, c net.Conn) context.Context {
	if h, ok := c.(*handed); ok && h.tls != nil {
		return context.WithValue(ctx, tlsKey{}, h.tls)
	}
	return ctx
}

// tellTLS completes requests of such connections.
func tellTLS(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if state, ok := r.Context().Value(tlsKey{}).(*tls.ConnectionState); ok {
			r.TLS = state
		}
		h.ServeHTTP(w, r)
	})
}
