package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the parameters of a server.
type Options struct {
	// Paths are the paths whose POST requests are served here, such as /mcp; at least one.
	// They must need no escaping, because they are compared with the request line byte by
	// byte.
	Paths []string
	// Handler handles these requests.
	Handler http.Handler
	// TLS enables TLS when it is not nil. Its NextProtos may offer h2, which the fallback
	// then serves.
	TLS *tls.Config
	// Fallback serves all connections with other requests. It must be complete and not
	// yet running; its handler should also serve Paths. Its ReadHeaderTimeout, IdleTimeout
	// and ErrorLog apply to this server too.
	Fallback *http.Server
	// BodyGrace and BodyRate bound the time of a request body: the grace, plus the time
	// for its bytes at the rate, in bytes a second.
	BodyGrace time.Duration
	BodyRate  int
}

// Server is an HTTP server. Its methods correspond to those of [http.Server] with the
// same names, and are safe for concurrent use.
type Server struct {
	opts     Options
	lines    []line    // the starts of requests that are served here
	epoch    time.Time // origin of the server's clock
	date     atomic.Pointer[date]
	fallback *fallbackListener
	watcher  *watcher // from Serve on
	passed   passed
	check    atomic.Pointer[check] // for TLS connections; nil until Recheck

	writeTimeout time.Duration
	draining     atomic.Bool

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
	onStop   []func()
	canceled atomic.Bool   // Cancel was called
	changed  chan struct{} // holds a value when a connection has ended
	running  sync.WaitGroup
}

// newConnTime is the time that a shutdown waits for the first request of a new
// connection.
const newConnTime = time.Second

// NewServer returns a server. It modifies the fallback: with TLS it wraps the handler,
// ConnState and ConnContext.
func NewServer(opts Options) *Server {
	s := &Server{
		opts: opts, lines: linesOf(opts.Paths),
		epoch: time.Now().Add(-time.Nanosecond), // no time on the clock is 0
		conns: make(map[*conn]struct{}), changed: make(chan struct{}, 1),
		fallback: newFallbackListener(), writeTimeout: writeTimeout,
	}
	s.passed.srv = s
	if opts.TLS != nil {
		s.passed.watch(opts.Fallback)
		opts.Fallback.Handler = tellTLS(opts.Fallback.Handler)
	}
	return s
}

// Serve accepts connections until Shutdown or Close. It returns [http.ErrServerClosed]
// after the fallback has ended too. It may be called once.
func (s *Server) Serve(ln net.Listener) error {
	w, err := newWatcher()
	if err != nil {
		// Without a watcher, only a goroutine per connection can detect that a client
		// disconnects; net/http has these goroutines.
		if s.opts.TLS != nil {
			ln = tls.NewListener(ln, s.opts.TLS)
		}
		return s.opts.Fallback.Serve(ln)
	}
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		w.close()
		return errors.Join(ln.Close(), http.ErrServerClosed)
	}
	s.listener, s.watcher, s.fallback.addr = ln, w, ln.Addr()
	s.running.Go(w.run)
	s.running.Go(func() { _ = s.opts.Fallback.Serve(s.fallback) })
	s.mu.Unlock()
	if err := s.accept(ln); err != nil {
		return err
	}
	s.running.Wait()
	return http.ErrServerClosed
}

// accept accepts connections until the server ends. When the process has no free file
// descriptors, it retries with backoff.
func (s *Server) accept(ln net.Listener) error {
	const shortest, longest = 5 * time.Millisecond, time.Second
	pause := shortest
	for {
		raw, err := ln.Accept()
		if err == nil {
			pause = shortest
			s.begin(raw)
			continue
		}
		if s.draining.Load() {
			return nil
		}
		var temporary interface{ Temporary() bool }
		if !errors.As(err, &temporary) || !temporary.Temporary() {
			return err
		}
		s.logf("http: Accept error: %v; retrying in %v", err, pause)
		time.Sleep(pause)
		pause = min(2*pause, longest)
	}
}

// begin serves a connection.
func (s *Server) begin(raw net.Conn) {
	c := newConn(s, raw)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	go c.serve()
}

// forget removes a connection that has ended or was handed over.
func (s *Server) forget(c *conn) {
	c.watch.forget()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// RegisterOnShutdown registers a function that Shutdown calls after the listener is
// closed. Shutdown does not wait for it.
func (s *Server) RegisterOnShutdown(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onStop = append(s.onStop, f)
}

// Cancel cancels the contexts of all requests that are served here, now and later, with
// cause, which must be a [context.Canceled], and interrupts reads of their bodies.
// Connections stay open, so that handlers can still respond. The contexts of the fallback
// derive from its BaseContext, which belongs to the caller.
func (s *Server) Cancel(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A body that extends its deadline concurrently checks canceled afterwards (see
	// grant).
	s.canceled.Store(true)
	for c := range s.conns {
		c.watch.endWith(cause)
		_ = c.raw.SetReadDeadline(time.Unix(1, 0))
	}
}

// Shutdown closes the listener and the idle connections, and waits until all others are
// closed, here and in the fallback. If ctx ends first, Shutdown returns its error, and
// Close closes the rest.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.stopListening()
	s.mu.Lock()
	for _, f := range s.onStop {
		go f()
	}
	s.mu.Unlock()
	s.opts.Fallback.SetKeepAlivesEnabled(false) // also closes its idle connections
	tick := time.NewTicker(newConnTime / 20)
	defer tick.Stop()
	stopped := s.now()
	for s.endIdle(stopped) > 0 {
		select {
		case <-s.changed:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if ferr := s.opts.Fallback.Shutdown(ctx); ferr != nil {
		return ferr
	}
	s.endWatch()
	return err
}

// Close closes all connections at once.
func (s *Server) Close() error {
	err := s.stopListening()
	s.mu.Lock()
	for c := range s.conns {
		c.cut()
	}
	s.mu.Unlock()
	err = errors.Join(err, s.opts.Fallback.Close())
	s.endWatch()
	return err
}

func (s *Server) stopListening() error {
	s.draining.Store(true)
	s.mu.Lock()
	ln := s.listener
	s.listener = nil
	s.mu.Unlock()
	if ln == nil {
		return nil
	}
	return ln.Close()
}

func (s *Server) endWatch() {
	s.mu.Lock()
	w := s.watcher
	s.mu.Unlock()
	if w != nil {
		w.close()
	}
}

// endIdle closes the idle connections and returns the number of others. A connection
// without a first request gets a short time for it, and one with a part of a header as
// much since the shutdown began.
func (s *Server) endIdle(stopped time.Duration) (left int) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.state.CompareAndSwap(idle, severed) ||
			now-c.made > newConnTime && c.state.CompareAndSwap(fresh, severed) {
			c.raw.Close()
		}
		if now-stopped > newConnTime && c.partial.CompareAndSwap(headPart, cutPart) {
			_ = c.raw.SetReadDeadline(time.Unix(1, 0))
		}
	}
	return len(s.conns)
}

// now is the time on the server's clock.
func (s *Server) now() time.Duration { return time.Since(s.epoch) }

func (s *Server) logf(format string, args ...any) {
	if l := s.opts.Fallback.ErrorLog; l != nil {
		l.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// date is the Date field of a response, which changes once a second.
type date struct {
	second int64
	text   string
}

func (s *Server) dateNow() string {
	now := time.Now()
	if d := s.date.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &date{now.Unix(), now.UTC().Format(http.TimeFormat)}
	s.date.Store(d)
	return d.text
}
