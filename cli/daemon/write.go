package daemon

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"svc/gateway/base/retry"
)

// writePiece is the number of bytes of a response per write timeout of HTTP/2.
const writePiece = 32 << 10

// limitWriteTime bounds how long a client may hold up a piece of a response over HTTP/2.
// With HTTP/1 the connection has a deadline (see package http1); with HTTP/2 the
// connection may be writable while the flow control window of a single stream is empty.
func (s *server) limitWriteTime(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			h.ServeHTTP(w, r)
			return
		}
		t := &timedWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: s.h2WriteTimeout}
		t.conn, _ = r.Context().Value(connKey{}).(*h2conn)
		h.ServeHTTP(t, r)
		switch { // net/http sends the rest of the response after the handler
		case t.timer == nil: // there is none
		case t.conn != nil && t.conn.crowded():
			_ = t.FlushError() // the stream counts until its response is sent
		default:
			_ = t.control.SetWriteDeadline(time.Now().Add(t.timeout))
		}
	})
}

// timedWriter is used by one goroutine at a time, like every response writer. A deadline
// that the handler sets applies too.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	conn    *h2conn     // nil for none
	timer   *time.Timer // nil before the first write

	mu      sync.Mutex
	writing bool
}

// Identified reports that the sender of the request was identified, which lifts the bound
// of streams of unidentified connections.
func (w *timedWriter) Identified() {
	if w.conn != nil {
		w.conn.identify()
	}
}

// Unwrap is for [http.ResponseController].
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin starts the time of a write, and end stops it.
func (w *timedWriter) begin() {
	w.mu.Lock()
	w.writing = true
	w.mu.Unlock()
	if w.timer == nil {
		w.timer = time.AfterFunc(w.timeout, w.expire)
	} else {
		w.timer.Reset(w.timeout)
	}
}

func (w *timedWriter) end() {
	w.timer.Stop()
	w.mu.Lock()
	w.writing = false
	w.mu.Unlock()
}

// expire ends the stream during a write. The lock keeps the handler from returning
// meanwhile: net/http does not check whether the request of a ResponseController is still
// served.
func (w *timedWriter) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing {
		_ = w.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// Write implements [http.ResponseWriter].
func (w *timedWriter) Write(p []byte) (n int, err error) {
	for {
		piece := p[:min(len(p), writePiece)]
		w.begin()
		k, err := w.ResponseWriter.Write(piece)
		w.end()
		n += k
		p = p[k:]
		if err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// FlushError is for [http.ResponseController].
func (w *timedWriter) FlushError() error {
	w.begin()
	defer w.end()
	return w.control.Flush()
}

// Flush implements [http.Flusher].
func (w *timedWriter) Flush() { _ = w.FlushError() }

// crowdEvery is the interval of the log lines about addresses with too many
// connections.
const crowdEvery = 10 * time.Second

// refuseOne logs connections that were closed because their address has too many.
func (s *server) refuseOne(addr netip.Addr, limit int) {
	if n, due := s.crowd.Due(time.Now(), crowdEvery); due {
		s.log.Warn("connections were closed: their address has too many open", "server", s.name,
			"address", addr.String(), "limit", limit, "closed", n)
	}
}

// acceptErrorEvery is the interval of the log lines about connections that cannot be
// accepted.
const acceptErrorEvery = time.Minute

// acceptFailed logs why connections wait: usually the process has no free file
// descriptors. The server tries again with growing pauses.
func (s *server) acceptFailed(err error) {
	n, due := s.failing.Due(time.Now(), acceptErrorEvery)
	if !due {
		return
	}
	fix := "see the error"
	if retry.NoDescriptors(err) {
		fix = "raise the limit of file descriptors (LimitNOFILE of systemd, ulimit -n); process_open_fds shows how many are in use"
	}
	s.log.Warn("connections cannot be accepted: clients wait", "server", s.name, "error", err, "attempts", n, "fix", fix)
}
