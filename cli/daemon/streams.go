package daemon

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"svc/gateway/http1"
)

// Limits of the streams of HTTP/2. Every stream costs memory while the client does not read
// its response, so the bound of streams must not multiply with that of connections: a
// connection has few of them until one of its requests was identified, and those of an
// address are counted together.
const (
	maxUnknownStreams = 16
	maxAddressStreams = 4096
	// maxUnknownOfAddress bounds the streams of all unidentified connections of an address.
	maxUnknownOfAddress = maxAddressStreams / 4
	// headerUnit is the size of a header that counts as one more stream of the address.
	headerUnit = 4 << 10
	// streamWait is how long a stream beyond maxUnknownStreams waits for the
	// identification of another one: clients send their first requests together.
	streamWait = time.Second
)

// streams counts the streams of HTTP/2 of a listener.
type streams struct {
	perAddress func(netip.Addr) int // addresses without a bound of connections have none of identified streams

	mu   sync.Mutex
	open map[netip.Prefix]count
}

// count is the streams of an address: all that are counted, and those of connections that
// are not identified.
type count struct{ all, unknown int }

// h2conn is a connection that may have streams of HTTP/2.
type h2conn struct {
	of    *streams
	nc    net.Conn      // beneath TLS
	addr  netip.Prefix  // the unit for counting, see clientip
	free  bool          // identified streams are not counted
	slots chan struct{} // of streams that are not identified

	once       sync.Once
	identified chan struct{}
	counted    int // guarded by the lock of the listener
}

type connKey struct{}

// connContext is [http.Server.ConnContext].
func (s *streams) connContext(ctx context.Context, nc net.Conn) context.Context {
	c := &h2conn{of: s, nc: nc, slots: make(chan struct{}, maxUnknownStreams), identified: make(chan struct{})}
	if secure, ok := nc.(*tls.Conn); ok {
		c.nc = secure.NetConn() // closing it does not wait for the peer
	}
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		addr := tcp.AddrPort().Addr().Unmap().WithZone("")
		c.addr, c.free = http1.Network(addr), s.perAddress(addr) <= 0
	}
	return context.WithValue(ctx, connKey{}, c)
}

// limit applies the limits to requests over HTTP/2.
func (s *streams) limit(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*h2conn)
		if r.ProtoMajor < 2 || !ok {
			h.ServeHTTP(w, r)
			return
		}
		leave, ok := c.enter(r)
		defer leave()
		if ok {
			h.ServeHTTP(w, r)
			return
		}
		// Without content, so that a closed window does not hold it up; the stream counts
		// until the client has read so far.
		w.Header()["Retry-After"] = []string{"1"}
		w.Header()["Content-Length"] = []string{"0"}
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = http.NewResponseController(w).Flush()
	})
}

// enter counts a stream until leave; ok is false when it exceeds a limit.
func (c *h2conn) enter(r *http.Request) (leave func(), ok bool) {
	n := 1
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	n = 1 + n/headerUnit
	if !c.add(n) {
		if !c.isIdentified() {
			_ = c.nc.Close() // its other streams cost memory too, before their handlers run
		}
		return func() {}, false
	}
	leave = func() { c.remove(n) }
	select {
	case <-c.identified:
		return leave, true
	default:
	}
	late := time.NewTimer(streamWait)
	defer late.Stop()
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots; c.remove(n) }, true
	case <-c.identified:
		return leave, true
	case <-r.Context().Done():
	case <-late.C:
	}
	return leave, false
}

func (c *h2conn) isIdentified() bool {
	select {
	case <-c.identified:
		return true
	default:
		return false
	}
}

// add counts n for the address; false when they exceed its limit.
func (c *h2conn) add(n int) bool {
	s := c.of
	s.mu.Lock()
	defer s.mu.Unlock()
	known := c.isIdentified()
	if known && c.free {
		return true
	}
	now := s.open[c.addr]
	if !c.free && now.all+n > maxAddressStreams || !known && now.unknown+n > maxUnknownOfAddress {
		return false
	}
	s.change(c, n, !known)
	return true
}

func (c *h2conn) remove(n int) {
	s := c.of
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(c, -min(n, c.counted), !c.isIdentified())
}

// change counts n streams of a connection. The caller has the lock.
func (s *streams) change(c *h2conn, n int, unknown bool) {
	now := s.open[c.addr]
	c.counted += n
	now.all += n
	if unknown {
		now.unknown += n
	}
	if s.open[c.addr] = now; now.all == 0 {
		delete(s.open, c.addr)
	}
}

// crowded reports whether the connection is not identified, or its address has so many
// streams that they count until their responses are sent. Others are counted until their
// handlers return, which saves them a flush.
func (c *h2conn) crowded() bool {
	s := c.of
	s.mu.Lock()
	defer s.mu.Unlock()
	return !c.isIdentified() || s.open[c.addr].all > maxAddressStreams/8 && !c.free
}

// identify ends the limits of unidentified streams.
func (c *h2conn) identify() {
	c.once.Do(func() {
		s := c.of
		s.mu.Lock()
		defer s.mu.Unlock()
		n := c.counted
		s.change(c, -n, true)
		if close(c.identified); !c.free {
			s.change(c, n, false)
		}
	})
}
