package front

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

// Options are what a server is made of.
type Options struct {
	// Path is the path whose POST requests are served here, such as /mcp. It must
	// be a plain one: what is on the wire is compared with it byte by byte.
	Path string
	// Handler answers them.
	Handler http.Handler
	// TLS is spoken when it is not nil. Its NextProtos may offer h2, which the
	// fallback then serves.
	TLS *tls.Config
	// Fallback serves all connections on which anything else comes. It must be
	// complete and not yet running; its handler should serve Path as well. Its
	// ReadHeaderTimeout, IdleTimeout and ErrorLog hold for this server too.
	Fallback *http.Server
	// BodyGrace and BodyRate bound the time of a request body: the grace, and what
	// its bytes take at the rate, in bytes a second.
	BodyGrace time.Duration
	BodyRate  int
}

// Server is an HTTP server. Its methods do what those of [http.Server] of the same
// names do, and may be called by anyone.
type Server struct {
	opts    Options
	line    string    // that a request of ours begins with
	epoch   time.Time // times here are durations since then
	date    atomic.Pointer[date]
	others  *others
	watcher *watcher // from Serve on
	passed  passed
	check   atomic.Pointer[check] // of TLS connections; nil until Recheck

	writeTimeout time.Duration
	draining     atomic.Bool

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
	onStop   []func()
	canceled atomic.Bool   // Cancel was called
	changed  chan struct{} // holds something when a connection has ended
	running  sync.WaitGroup
}

// newConnTime is how long a shutdown waits for the first request on a connection.
const newConnTime = 5 * time.Second

// New returns a server. It takes the fallback over: with TLS its handler and its
// ConnState are wrapped and its ConnContext is set.
func New(opts Options) *Server {
	s := &Server{
		opts: opts, line: "POST " + opts.Path + " HTTP/1.1\r\n",
		epoch: time.Now().Add(-time.Nanosecond), // so that no time is 0
		conns: make(map[*conn]struct{}), changed: make(chan struct{}, 1),
		others: newOthers(), writeTimeout: writeTimeout,
	}
	s.passed.srv = s
	if opts.TLS != nil {
		s.passed.watch(opts.Fallback)
		opts.Fallback.Handler = tellTLS(opts.Fallback.Handler)
	}
	return s
}

// Serve accepts connections until Shutdown or Close, and returns
// [http.ErrServerClosed] then, when the fallback has ended too. It may be called
// once.
func (s *Server) Serve(ln net.Listener) error {
	w, err := newWatcher()
	if err != nil {
		// Nothing can tell that a client leaves but a goroutine for each: as
		// net/http has it.
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
	s.listener, s.watcher, s.others.addr = ln, w, ln.Addr()
	s.running.Go(w.run)
	s.running.Go(func() { _ = s.opts.Fallback.Serve(s.others) })
	s.mu.Unlock()
	if err := s.accept(ln); err != nil {
		return err
	}
	s.running.Wait()
	return http.ErrServerClosed
}

// accept takes connections until the server ends. When the process is out of file
// descriptors it waits a little.
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

// forget drops a connection that has ended or was handed over.
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

// RegisterOnShutdown registers a function to call on Shutdown, once no new
// connections are accepted. Shutdown does not wait for it.
func (s *Server) RegisterOnShutdown(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onStop = append(s.onStop, f)
}

// Cancel ends the contexts of all requests that are served here, now and later, with
// cause, which must be a [context.Canceled], and ends reads of their bodies. The
// connections stay: the handlers can still answer. The contexts of the fallback are
// derived from its BaseContext, which belongs to the caller.
func (s *Server) Cancel(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A body whose deadline is moved meanwhile looks at this afterwards (see grant).
	s.canceled.Store(true)
	for c := range s.conns {
		c.watch.endWith(cause)
		_ = c.raw.SetReadDeadline(time.Unix(1, 0))
	}
}

// Shutdown refuses new connections, ends those that are idle and waits until the
// others have been, here and in the fallback. When ctx ends first it returns its
// error, and Close cuts what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.stopListening()
	s.mu.Lock()
	for _, f := range s.onStop {
		go f()
	}
	s.mu.Unlock()
	s.opts.Fallback.SetKeepAlivesEnabled(false) // and end those of them that are idle
	tick := time.NewTicker(newConnTime / 50)
	defer tick.Stop()
	for s.endIdle() > 0 {
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

// Close ends everything at once.
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

// endIdle ends the connections without a request and returns how many there are
// besides. One on which nothing has come yet is given a little time.
func (s *Server) endIdle() (left int) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.state.CompareAndSwap(idle, severed) ||
			now-c.made > newConnTime && c.state.CompareAndSwap(fresh, severed) {
			c.raw.Close()
		}
	}
	return len(s.conns)
}

// now is the time on the server's time line.
func (s *Server) now() time.Duration { return time.Since(s.epoch) }

func (s *Server) logf(format string, args ...any) {
	if l := s.opts.Fallback.ErrorLog; l != nil {
		l.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// date is the Date of an answer, which changes once a second.
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
