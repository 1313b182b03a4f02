package daemon

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// writePiece is how many bytes of an answer have one time-out.
const writePiece = 256 << 10

// limitWriteTime gives the answers of HTTP/2 a write deadline that moves on with what
// the client takes. With HTTP/1 the connection has one (see package socket); here the
// connection may be ready while the client grants a single stream no room.
func (s *server) limitWriteTime(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor >= 2 {
			w = &timedWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: s.writeTimeout}
		}
		h.ServeHTTP(w, r)
	})
}

// timedWriter is used by one goroutine at a time, as response writers are.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	set     bool // the deadline is the handler's own
}

// Unwrap is for [http.ResponseController].
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// SetWriteDeadline is for [http.ResponseController]. One that the handler sets holds
// until it sets none.
func (w *timedWriter) SetWriteDeadline(t time.Time) error {
	w.set = !t.IsZero()
	return w.control.SetWriteDeadline(t)
}

func (w *timedWriter) arm() {
	if !w.set {
		_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
	}
}

// Write implements [http.ResponseWriter].
func (w *timedWriter) Write(p []byte) (n int, err error) {
	for {
		piece := p[:min(len(p), writePiece)]
		w.arm()
		k, err := w.ResponseWriter.Write(piece)
		n += k
		p = p[k:]
		if err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// FlushError is for [http.ResponseController].
func (w *timedWriter) FlushError() error {
	w.arm()
	return w.control.Flush()
}

// Flush implements [http.Flusher].
func (w *timedWriter) Flush() { _ = w.FlushError() }

// crowdEvery is how often a server logs that an address has too many connections.
const crowdEvery = 10 * time.Second

// crowd counts the connections that were refused since the last warning.
type crowd struct {
	mu      sync.Mutex
	last    time.Time
	refused int
}

// refuseOne warns of connections that were closed because their address has too many.
func (s *server) refuseOne(addr netip.Addr, limit int) {
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	s.crowd.refused++
	if now := time.Now(); now.Sub(s.crowd.last) >= crowdEvery {
		s.log.Warn("connections were closed: their address has too many open", "server", s.name,
			"address", addr.String(), "limit", limit, "closed", s.crowd.refused)
		s.crowd.last, s.crowd.refused = now, 0
	}
}
