package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"svc/gateway/base/retry"
	"svc/gateway/http1"
)

// Limits of every HTTP server. Responses have no total time limit, because event
// streams last as long as their readers; but a client has to read.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	maxH2Streams      = 250
	maxH2Frame        = 64 << 10
	// writeTimeout is how long a client may take for a piece of a response, as in
	// package http1.
	writeTimeout = time.Minute
	// h2WriteTimeout is how long a closed flow control window may hold up a response of
	// HTTP/2.
	h2WriteTimeout = 10 * time.Second
	// maxH2Upload bounds the bytes of bodies that a connection buffers for its handlers.
	maxH2Upload = 256 << 10
	// maxPerAddress is the number of connections that one address may have open
	// without [MaxPerAddress].
	maxPerAddress = 4096
)

// server is one listener with its HTTP server.
type server struct {
	name    string
	ln      net.Listener
	tls     *tls.Config
	calls   []string                                                  // paths that are served by package http1; nil for none
	recheck func(recheck func(valid func(*tls.ConnectionState) bool)) // may be nil
	http    httpServer
	cancel  context.CancelCauseFunc // requests in net/http
	cause   error                   // the cause of canceled requests
	refused func()                  // called when connections are no longer accepted
	running *inFlight
	log     *slog.Logger
	serving sync.WaitGroup

	writeTimeout, h2WriteTimeout time.Duration
	perAddress                   func(netip.Addr) int
	crowd, failing               retry.Repeats // closed connections, accepts that failed
}

// httpServer is [http.Server], or [http1.Server] in front of it.
type httpServer interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
	RegisterOnShutdown(func())
}

// ListenOption changes how a listener is served.
type ListenOption func(*server)

// Calls serves POST requests to paths by package http1, which is faster. All others
// are served by net/http; clients see no difference.
func Calls(paths ...string) ListenOption { return func(s *server) { s.calls = paths } }

// Rechecked calls register with a function that closes the TLS connections of the
// listener whose certificates are no longer valid: see [http1.Server.Recheck]. It
// needs Calls.
func Rechecked(register func(recheck func(valid func(*tls.ConnectionState) bool))) ListenOption {
	return func(s *server) { s.recheck = register }
}

// MaxPerAddress sets the number of connections that one address may have open; 0
// means no bound. Without this option the bound is 4,096, and loopback has none.
func MaxPerAddress(f func(netip.Addr) int) ListenOption {
	return func(s *server) { s.perAddress = f }
}

func defaultPerAddress(a netip.Addr) int {
	if a.IsLoopback() {
		return 0
	}
	return maxPerAddress
}

// OnRefusing has f called when the daemon stops, after new connections are no longer
// accepted and before the wait for requests in flight. f should end requests that
// last as long as their clients, such as event streams.
func OnRefusing(f func()) ListenOption { return func(s *server) { s.refused = sync.OnceFunc(f) } }

// CutCause sets the cause of the contexts of requests that are canceled at the end
// of the grace time. It must be a [context.Canceled]. The handlers have cutTime to
// respond.
func CutCause(err error) ListenOption { return func(s *server) { s.cause = err } }

// cutTime is how long requests that were canceled at the end of the grace time may
// take to respond.
const cutTime = 2 * time.Second

// errCut is the cause without [CutCause].
var errCut = fmt.Errorf("the server stops: %w", context.Canceled)

func (s *server) start(failures chan<- error) {
	s.log.Info("listening", "server", s.name, "addr", s.ln.Addr().String(), "tls", s.tls != nil)
	s.serving.Go(func() {
		if err := s.http.Serve(s.accept()); !errors.Is(err, http.ErrServerClosed) {
			failures <- fmt.Errorf("serve %s: %w", s.name, err)
		}
	})
}

// stop stops accepting connections at once and waits for requests until ctx ends.
// Then it cancels the remaining requests, and waits for their handlers.
func (s *server) stop(ctx context.Context, patience time.Duration) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		if n := s.running.n.Load(); n > 0 { // and not only connections whose requests have ended
			s.log.Warn("requests still in flight were canceled", "server", s.name, "requests", n)
		}
		err = s.cut(patience)
	}
	s.cancel(errCut)
	s.serving.Wait()
	// Shutdown knows the listener only after Serve has begun.
	if cerr := s.ln.Close(); cerr != nil && !errors.Is(cerr, net.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	return nil
}

// cut cancels the remaining requests. First their contexts end, so that they can
// respond; after cutTime the connections of the others are closed.
func (s *server) cut(patience time.Duration) error {
	s.cancel(s.cause)
	if c, ok := s.http.(interface{ Cancel(error) }); ok {
		c.Cancel(s.cause)
	}
	ctx, done := context.WithTimeout(context.Background(), min(cutTime, patience))
	defer done()
	if s.http.Shutdown(ctx) == nil {
		return nil
	}
	err := s.http.Close()
	if left := s.running.wait(patience); left > 0 {
		s.log.Error("requests did not end when they were canceled", "server", s.name, "requests", left)
	}
	return err
}

// Listen binds an address and serves h on it once Run is called; clients that
// connect before wait. With a TLS configuration it serves HTTPS (HTTP/1.1 and
// HTTP/2), without one plain HTTP/1.1. It returns the bound address, which has the
// port when addr has port 0.
func (d *Daemon) Listen(name, addr string, h http.Handler, conf *tls.Config, opts ...ListenOption) (net.Addr, error) {
	ln, err := Bind(addr)
	if err != nil {
		return nil, err
	}
	d.Serve(name, ln, h, conf, opts...)
	return ln.Addr(), nil
}

// Bind binds an address for Serve, for handlers that must know the bound port.
func Bind(addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, explainListen(addr, err)
	}
	return ln, nil
}

// Serve is Listen for a listener that is already bound. The daemon closes it.
func (d *Daemon) Serve(name string, ln net.Listener, h http.Handler, conf *tls.Config, opts ...ListenOption) {
	s := &server{name: name, log: d.log, ln: ln, tls: conf, running: &inFlight{Handler: h}, cause: errCut,
		writeTimeout: writeTimeout, h2WriteTimeout: h2WriteTimeout, perAddress: defaultPerAddress}
	h = s.running
	for _, o := range opts {
		o(s)
	}
	if s.tls != nil && len(s.tls.NextProtos) == 0 {
		s.tls = s.tls.Clone()
		s.tls.NextProtos = []string{"h2", "http/1.1"}
	}
	base, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	h2 := &streams{perAddress: s.perAddress, open: map[netip.Prefix]count{}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(conf != nil)
	ordinary := &http.Server{
		// Otherwise net/http answers OPTIONS * itself, without calling a handler.
		DisableGeneralOptionsHandler: true,
		Handler:                      answerPreface(endAfterChunks(h2.limit(limitBodyTime(s.limitWriteTime(h), bodyGrace))), d.log, time.Now),
		ConnContext:                  h2.connContext,
		ReadHeaderTimeout:            readHeaderTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		Protocols:                    protocols,
		BaseContext:                  func(net.Listener) context.Context { return base },
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxH2Streams,
			MaxReadFrameSize:              maxH2Frame,
			MaxReceiveBufferPerConnection: maxH2Upload,
			MaxReceiveBufferPerStream:     maxH2Upload,
			SendPingTimeout:               30 * time.Second,
			WriteByteTimeout:              time.Minute,
		},
		ErrorLog: slog.NewLogLogger(d.log.With("server", name).Handler(), slog.LevelDebug),
	}
	watchUnused(ordinary)
	s.http = ordinary
	if s.calls != nil {
		calls := http1.NewServer(http1.Options{
			Paths: s.calls, Handler: h, TLS: s.tls, Fallback: ordinary,
			BodyGrace: bodyGrace, BodyRate: bodyRate,
		})
		if s.recheck != nil {
			s.recheck(calls.Recheck)
		}
		s.http = calls
	}
	if s.refused != nil {
		s.http.RegisterOnShutdown(s.refused)
	}
	d.parts = append(d.parts, s)
}

// accept returns the listener to serve, with TLS if configured.
func (s *server) accept() net.Listener {
	ln := http1.NewListener(s.ln, http1.Limits{
		WriteTimeout: s.writeTimeout, PerAddress: s.perAddress, Refused: s.refuseOne, Failed: s.acceptFailed,
	})
	if s.tls == nil || s.calls != nil { // package http1 does TLS itself
		return ln
	}
	return tls.NewListener(ln, s.tls)
}

// BaseURL returns the URL of a bound address; for an address that means all
// interfaces it uses loopback.
func BaseURL(addr net.Addr, withTLS bool) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if withTLS {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(host, port))
}
