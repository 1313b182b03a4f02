package daemon

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// writePiece is the number of bytes of a response per write timeout.
const writePiece = 256 << 10

// limitWriteTime gives the responses of HTTP/2 a write deadline that is extended as
// the client reads. With HTTP/1 the connection has one (see package socket); with
// HTTP/2 the connection may be writable while the flow control window of a single
// stream is empty.
func (s *server) limitWriteTime(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor >= 2 {
			w = &timedWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: s.writeTimeout}
		}
		h.ServeHTTP(w, r)
	})
}

// timedWriter is used by one goroutine at a time, like every response writer.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	set     bool // whether the handler has set a deadline
}

// Unwrap is for [http.ResponseController].
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// SetWriteDeadline is for [http.ResponseController]. A deadline of the handler
// applies until the handler removes it.
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

// crowdEvery is the interval of the log lines about addresses with too many
// connections.
const crowdEvery = 10 * time.Second

// crowd counts the connections that were refused since the last log line.
type crowd struct {
	mu      sync.Mutex
	last    time.Time
	refused int
}

// refuseOne logs connections that were closed because their address has too many.
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
