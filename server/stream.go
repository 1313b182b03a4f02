package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"svc/store"
)

const (
	// streamRetry is the time that clients wait before they reconnect (the retry
	// field of server-sent events).
	streamRetry = "retry: 2000\n"
	// maxStreams bounds the open streams of a tenant.
	maxStreams = 64
	// maxPageStreams bounds the open pages of a tenant that show traces as they come.
	maxPageStreams = 128
)

// streamTimings are the intervals and bounds of trace streams.
type streamTimings struct {
	tick         time.Duration // interval in which an idle stream checks whether its key is still valid
	keepAlive    time.Duration // longest time between two writes
	writeTimeout time.Duration // timeout of one write
	lag          int           // number of commits that a reader may lag behind
}

var usualPace = streamTimings{tick: time.Second, keepAlive: 15 * time.Second, writeTimeout: 10 * time.Second, lag: 10_000}

// streams counts the open streams of each tenant, and can end all of them.
type streams struct {
	pace     streamTimings
	draining chan struct{}
	drained  sync.Once

	mu   sync.Mutex
	open map[string]int // by tenant, or what else holds them
}

func newStreams() *streams {
	return &streams{pace: usualPace, open: make(map[string]int), draining: make(chan struct{})}
}

func (st *streams) enter(holder string, most int) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.open[holder] >= most {
		return false
	}
	st.open[holder]++
	return true
}

func (st *streams) leave(holder string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.open[holder]--; st.open[holder] == 0 {
		delete(st.open, holder)
	}
}

// Drain ends the open streams and those that begin later, so that a server can
// shut down without aborting them. Clients resume at another process with
// Last-Event-ID.
func (s *Server) Drain() { s.streams.drained.Do(func() { close(s.streams.draining) }) }

// streamTraces serves GET /api/traces/stream: committed traces as server-sent
// events, in commit order. Each event has the cursor to resume from as its id,
// and a Trace in the form of lists as its data. A block without data carries only
// the cursor. It is sent at the start, so that a client that has seen no trace
// can also resume without a gap, and as a keep-alive.
func (s *Server) streamTraces(c *call) error {
	q := c.query()
	opts := store.StreamOptions{Filter: traceFilter(q), MaxLag: s.streams.pace.lag, After: store.Cursor(c.Header.Get("Last-Event-ID"))}
	if err := q.err(); err != nil {
		return err
	}
	holder, most, tick := c.tenant.ID(), maxStreams, s.streams.pace.tick
	if inProcess(c.Context()) != nil { // open pages leave the streams of programs their room
		holder, most, tick = "page "+holder, maxPageStreams, tick/2 // the page asks the store again a little later
	}
	if !s.streams.enter(holder, most) {
		c.w.Header().Set("Retry-After", "10")
		return &failure{http.StatusTooManyRequests, "too many open trace streams", nil}
	}
	defer s.streams.leave(holder)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	traces, err := c.traces.StreamTraces(ctx, opts)
	if store.KindOf(err) == store.Invalid { // the cursor is the only argument that a store rejects
		return invalidField("Last-Event-ID", "must be the id of an event of this stream")
	}
	if err != nil {
		return err
	}
	defer traces.Close()

	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	out := &eventWriter{c: c, control: http.NewResponseController(c.w), patience: s.streams.pace.writeTimeout}
	_ = out.control.SetReadDeadline(time.Time{}) // a server's read timeout would end the stream
	if !out.send([]byte(streamRetry + "id: " + string(traces.Cursor()) + "\n\n")) {
		return nil
	}
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	s.pump(ctx, c, traces, out, tick)
	return nil
}

// pump sends events until the client disconnects or lags, the key is no longer
// valid, or the server drains.
func (s *Server) pump(ctx context.Context, c *call, traces store.TraceStream, out *eventWriter, tick time.Duration) {
	lastSent := time.Now()
	for {
		wait, cancel := context.WithTimeout(ctx, tick)
		events, err := traces.Next(wait)
		cancel()
		select {
		case <-s.streams.draining:
			return
		default:
		}
		switch {
		case errors.Is(err, store.ErrTooSlow):
			s.metrics.slowStreams.Inc()
			out.send([]byte(": too far behind; resume with Last-Event-ID\n\n"))
			return
		case err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)):
			if ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
				s.log.Error("trace stream ended", "request_id", c.id, "error", err)
			}
			return
		}
		if s.stillAuthorized(c) != nil {
			return
		}
		var block []byte
		for i := range events {
			block = append(block, "id: "...)
			block = append(block, events[i].Cursor...)
			block = append(block, "\ndata: "...)
			block = append(block, encode(wireTraceItem(events[i].Trace))...)
			block = append(block, "\n\n"...)
		}
		if block == nil && time.Since(lastSent) >= s.streams.pace.keepAlive {
			block = []byte(": keep-alive\nid: " + string(traces.Cursor()) + "\n\n")
		}
		if block == nil {
			continue
		}
		if !out.send(block) {
			return
		}
		lastSent = time.Now()
	}
}

// stillAuthorized checks whether the key of a request that takes long may still call its
// endpoint: a response that is sent in parts checks it before each part, a request that
// waits after waiting. The error is a 401 for a key that was deleted, a 403 when its user
// or team lost the permission, and another error when the store cannot tell.
func (s *Server) stillAuthorized(c *call) error {
	again := *c
	if err := s.authenticate(&again); err != nil {
		return err
	}
	if again.tenant.ID() != c.tenant.ID() {
		return errUnauthorized
	}
	return again.permit()
}

// eventWriter writes to a client that may have stopped reading.
type eventWriter struct {
	c        *call
	control  *http.ResponseController
	patience time.Duration
}

// send reports whether the block was written in time.
func (w *eventWriter) send(block []byte) bool {
	// The server's write timeout applies to responses as a whole, not to streams.
	_ = w.control.SetWriteDeadline(time.Now().Add(w.patience)) // not every connection supports deadlines
	if _, err := w.c.w.Write(block); err != nil {
		return false
	}
	return w.control.Flush() == nil
}
