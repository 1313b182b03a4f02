// Package gateway is the proxy between agents and tool servers: it takes each
// request through admission, authentication, policy, routing and forwarding,
// inspects what comes back, and leaves an audit line.
//
// serve.go is the path of a request, from top to bottom; stream.go what an event
// stream needs of it; live.go what a reload replaces. The steps themselves are
// packages of their own below this one: each decides, and the gateway performs.
// Listening, signals and the configuration's place belong to the caller.
package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/background"
	"svc/gateway/bodies"
	"svc/gateway/certificate"
	"svc/gateway/clientip"
	"svc/gateway/config"
	"svc/gateway/failures"
	"svc/gateway/federation"
	"svc/gateway/govern"
	"svc/gateway/health"
	"svc/gateway/intake"
	"svc/gateway/license"
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/observer"
	"svc/gateway/quality"
	"svc/gateway/ratelimit"
	"svc/gateway/refused"
	"svc/gateway/report"
	"svc/gateway/streams"
	"svc/gateway/targets"
	"svc/gateway/toolsearch"
	"svc/gateway/translate"
	"svc/gateway/transport"
	"svc/gateway/upstream"
	"svc/gateway/verdict"
)

// Options are what a gateway is made of.
type Options struct {
	// Config is the configuration to start with, as config.Load returned it.
	Config *config.File
	// Load reads the configuration again, for Reload. The error says all that
	// is wrong with it.
	Load func() (*config.File, error)
	// Logger receives what an operator should know; discards when nil.
	Logger *slog.Logger
	// Version is told to upstreams that the gateway opens sessions at.
	Version string
	// LicenseKey is the build's own public key in PEM, used when the
	// configuration names none; may be empty.
	LicenseKey []byte
	// Sink receives the traces; nil when none are reported.
	Sink report.Sink
	// Heads keeps the end of the audit chain; nil when nobody does.
	Heads report.HeadSink
	// SinkStatus returns the HTTP status of an error of Sink, 0 when there was
	// no answer, and how long it asked to wait. Needed with Sink.
	SinkStatus func(error) (status int, retryAfter time.Duration)
	// Governance is asked for the policies of the control plane; nil when they are
	// not enforced. It needs SinkStatus.
	Governance govern.Source
	// Roots are the authorities that are trusted when the keys of a token issuer
	// and client metadata are fetched; those of the system when nil.
	Roots *x509.CertPool
	// Now tells the time; time.Now when nil.
	Now func() time.Time

	openAudit audit.OpenFunc // of tests whose disk fails
}

// Gateway is an http.Handler. It is safe for concurrent use. The fields above
// live stay as they were at the start: what a reload may replace is behind
// live, and what lasts across reloads is owned here and reconciled by name.
type Gateway struct {
	log     *slog.Logger
	now     func() time.Time
	since   func(time.Time) time.Duration // by now, and cheaper
	load    func() (*config.File, error)
	version string

	listen          string
	defaultUpstream string
	targets         map[string]*transport.Upstream
	upstreams       *translate.Upstreams // those of targets that are configured
	router          *upstream.Router
	proxies         *clientip.Resolver
	addressWarned   atomic.Bool // of proxies that send both headers
	versions        mcp.Allowed

	license  *license.Checker
	verifier *auth.Verifier
	oauth    *auth.OAuth
	limits   ratelimit.Store
	redis    *ratelimit.Redis    // nil when limits are kept in memory
	sessions *multiplex.Sessions // at upstreams
	audit    *audit.Log
	refused  *refused.Counters    // of requests whose callers were not identified
	reporter *report.Reporter     // nil when no traces are reported
	heads    *report.HeadReporter // nil when nobody keeps audit heads
	tls      *certificate.Store   // nil when plain HTTP is served

	// governance holds the policies of the control plane; nil when they are not
	// enforced.
	governance *govern.Syncer
	quality    *quality.Schemas // nil when no traces are reported
	callouts   verdict.Callouts // nil when no metrics are served

	sessionKey []byte              // seals what clients keep
	search     *toolsearch.Service // nil unless tools/list is answered here
	// federation is the default upstream where it is configured, else nil.
	federation *federation.Federation

	live      atomic.Pointer[live]
	health    *health.Probes
	reloading sync.Mutex

	failures *failures.Log
	// streams ends when the gateway stops, before requests in flight are waited for.
	streams    context.Context
	endStreams context.CancelFunc

	bodies *bodies.Counter
	// writeTimeout and released are for tests: how long a client may take for a part
	// of an event stream, and what is done with the buffers of a request when they are
	// given back; nil for nothing.
	writeTimeout time.Duration
	released     func(*buffers)
	background   *background.Calls
	merged       streams.MergedSet
	observer     observer.Observer
}

// buffers are kept from request to request.
type buffers struct {
	body     intake.Body
	answer   []byte // the answer as it came
	own      []byte // an answer of the gateway's own
	frameOut []byte // an event as it is sent
	fields   upstream.Header
	spans    []audit.Span
}

// keepBuffer is the size beyond which a buffer is not kept.
const keepBuffer = 256 << 10

func (b *buffers) trim() {
	for _, p := range []*[]byte{&b.body.Bytes, &b.answer, &b.own, &b.frameOut} {
		if cap(*p) > keepBuffer {
			*p = nil
		}
	}
}

var _ http.Handler = (*Gateway)(nil)

// New builds a gateway. Everything that can be wrong is found here: an error
// means that nothing is left running or open.
func New(opts Options) (g *Gateway, err error) {
	cfg := opts.Config
	g = &Gateway{
		log: opts.Logger, now: opts.Now, load: opts.Load, version: opts.Version,
		listen:          cfg.Listen,
		defaultUpstream: cfg.DefaultUpstream,
		versions:        mcp.Allowed(cfg.AllowedProtocolVersions),
		bodies:          bodies.New(),
		writeTimeout:    streams.DefaultWriteTimeout,
		merged:          streams.MergedSet{Pauses: streams.Reopening},
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	g.since = func(t time.Time) time.Duration { return g.now().Sub(t) }
	if g.now == nil {
		g.now, g.since = time.Now, time.Since
	}
	g.failures = failures.New(g.log)
	g.streams, g.endStreams = context.WithCancel(context.Background())
	g.background = background.New(g.log)
	g.oauth = auth.NewOAuth(auth.OAuthOptions{Now: g.now, Logger: g.log, Roots: opts.Roots})
	defer func(built *Gateway) { // a return of nil has cleared g by then
		if err != nil {
			_ = built.Close()
		}
	}(g)
	if g.license, err = license.Open(cfg.License, opts.LicenseKey, g.now); err != nil {
		return nil, fmt.Errorf("license: %w", err)
	}
	g.health = health.New(health.Options{
		License: g.license, Dropped: func() uint64 { return g.audit.DroppedRecords() }, Logger: g.log, Now: g.now,
	})
	g.license.Changed = g.health.LogLicense
	if g.proxies, err = clientip.New(cfg.TrustedProxies, cfg.ClientAddressHeader); err != nil {
		return nil, err
	}
	if g.router, err = upstream.NewRouter(cfg.Routes); err != nil {
		return nil, err
	}
	if err = g.openUpstreams(cfg); err != nil {
		return nil, err
	}
	if err = g.openFederation(cfg); err != nil {
		return nil, err
	}
	if g.tls, err = certificate.Load(cfg.TLS); err != nil {
		return nil, err
	}
	if err = g.openState(cfg, opts); err != nil {
		return nil, err
	}
	g.verifier = auth.OpenVerifier(g.now, filepath.Join(cfg.StateDirectory(), "known-keys.json"), g.log)
	if err = g.openLimits(cfg); err != nil {
		return nil, err
	}
	if err = g.openSessions(cfg); err != nil {
		return nil, err
	}
	if err = g.openObserver(cfg); err != nil {
		return nil, err
	}
	if g.reporter != nil {
		g.quality = quality.New()
	}
	if err = g.openGovernance(cfg, opts); err != nil {
		return nil, fmt.Errorf("control_plane.governance: %w", err)
	}
	g.openSearch(cfg)
	next, err := g.build(cfg)
	if err != nil {
		return nil, err
	}
	g.activate(next)
	g.warn(cfg)
	g.health.LogStart()
	g.warnSearch(next)
	return g, nil
}

// Run does the background work (license checks, reporting, telemetry) until ctx ends, and
// returns when all of it has stopped.
func (g *Gateway) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	var reported, observed error
	wg.Go(func() { observed = g.observer.Run(ctx) })
	wg.Go(func() { g.license.Run(ctx) })
	wg.Go(func() { g.verifier.Run(ctx) })
	wg.Go(func() { g.upstreams.Run(ctx) })
	if g.governance != nil {
		wg.Go(func() { g.governance.Run(ctx) })
	}
	if g.search != nil {
		wg.Go(func() { g.search.Run(ctx) })
	}
	if g.federation != nil {
		wg.Go(func() { g.federation.Run(ctx) })
	}
	if g.reporter != nil {
		wg.Go(func() { reported = g.reporter.Run(ctx) })
	}
	if g.heads != nil {
		wg.Go(func() { g.heads.Run(ctx) })
	}
	wg.Wait()
	if reported != nil && !errors.Is(reported, context.Canceled) {
		return errors.Join(fmt.Errorf("reporter: %w", reported), observed)
	}
	return observed
}

// ConnectionLimit returns how many connections may be open from an address, 0 for any
// number. Behind loopback and trusted proxies are many clients.
func (g *Gateway) ConnectionLimit(a netip.Addr) int {
	return g.proxies.Limit(a, g.live.Load().cfg.Limits.ConnectionsPerAddress)
}

// TLSConfig returns the configuration to listen with, or nil for plain HTTP.
// It follows reloads.
func (g *Gateway) TLSConfig() *tls.Config {
	if g.tls == nil {
		return nil
	}
	return g.tls.Config()
}

// OnClientCA registers what closes connections: recheck is called after a reload
// that changed tls.client_ca, and must end those for which valid returns false
// after the request that they serve.
func (g *Gateway) OnClientCA(recheck func(valid func(*tls.ConnectionState) bool)) {
	g.tls.OnClientCA(recheck)
}

// Close waits for background calls, and closes the audit file and the connections to
// upstreams and to the rate-limit store. It must be called after the last
// request has ended and Run has returned.
func (g *Gateway) Close() error {
	g.endStreams()
	g.background.Stop()
	g.oauth.Close()
	if g.verifier != nil {
		g.verifier.Close()
	}
	var errs []error
	errs = append(errs, targets.Close(g.targets))
	if l := g.live.Load(); l != nil {
		l.verdict.Guards.Close()
	}
	if g.redis != nil {
		errs = append(errs, g.redis.Close())
	}
	errs = append(errs, g.sessions.Close())
	if g.audit != nil {
		g.refused.Close(refusedPatience)
		errs = append(errs, g.audit.Close())
	}
	g.failures.Close()
	errs = append(errs, g.observer.Close())
	return errors.Join(errs...)
}

// refusedPatience bounds how long the counts of refused requests may take to reach
// the audit file when the gateway closes.
const refusedPatience = 4 * time.Second
