// Package gateway is the proxy between agents and tool servers: it takes each
// request through admission, authentication, policy, routing and forwarding,
// inspects what comes back, and leaves an audit line.
//
// serve.go is the path of a request, from top to bottom; open.go makes what requests
// use, and live.go replaces what a reload may. The request itself, and the steps that
// take it on its way, are packages below this one, which know no gateway.
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
	"time"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/background"
	"svc/gateway/bodies"
	"svc/gateway/certificate"
	"svc/gateway/clientip"
	"svc/gateway/config"
	"svc/gateway/exchange"
	"svc/gateway/failures"
	"svc/gateway/govern"
	"svc/gateway/health"
	"svc/gateway/license"
	"svc/gateway/mcp"
	"svc/gateway/observer"
	"svc/gateway/quality"
	"svc/gateway/ratelimit"
	"svc/gateway/report"
	"svc/gateway/streams"
	"svc/gateway/targets"
	"svc/gateway/translate"
	"svc/gateway/upstream"
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
	// Version is sent to upstreams that the gateway opens sessions at.
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
	// Now returns the time; time.Now when nil.
	Now func() time.Time

	openAudit audit.OpenFunc // of tests whose disk fails
}

// Gateway is an http.Handler. It is safe for concurrent use. What a reload may replace
// is behind services.Live; everything else stays as it was at the start, is owned here
// and reconciled by name.
type Gateway struct {
	// services are what requests use of the gateway.
	services exchange.Services

	load    func() (*config.File, error)
	version string
	listen  string

	upstreams  *translate.Upstreams // those of the targets that are configured
	license    *license.Checker
	health     *health.Probes
	verifier   *auth.Verifier
	oauth      *auth.OAuth
	redis      *ratelimit.Redis     // nil when limits are kept in memory
	reporter   *report.Reporter     // nil when no traces are reported
	heads      *report.HeadReporter // nil when nobody keeps audit heads
	tls        *certificate.Store   // nil when plain HTTP is served
	observer   observer.Observer
	sessionKey []byte // seals what clients keep

	endStreams context.CancelFunc
	reloading  sync.Mutex
}

var _ http.Handler = (*Gateway)(nil)

// New builds a gateway. Everything that can be wrong is found here: an error
// means that nothing is left running or open.
func New(opts Options) (g *Gateway, err error) {
	cfg := opts.Config
	g = &Gateway{load: opts.Load, version: opts.Version, listen: cfg.Listen}
	on := &g.services
	on.Log, on.Now = opts.Logger, opts.Now
	if on.Log == nil {
		on.Log = slog.New(slog.DiscardHandler)
	}
	on.Since = func(t time.Time) time.Duration { return on.Now().Sub(t) }
	if on.Now == nil {
		on.Now, on.Since = time.Now, time.Since // by the monotonic clock
	}
	on.DefaultUpstream, on.Versions = cfg.DefaultUpstream, mcp.Allowed(cfg.AllowedProtocolVersions)
	on.Bodies, on.WriteTimeout, on.Merged.Pauses = bodies.New(), streams.DefaultWriteTimeout, streams.Reopening
	g.services.Failures = failures.New(g.services.Log)
	g.services.Stopping, g.endStreams = context.WithCancel(context.Background())
	g.services.Background = background.New(g.services.Log)
	g.oauth = auth.NewOAuth(auth.OAuthOptions{Now: g.services.Now, Logger: g.services.Log, Roots: opts.Roots})
	defer func(built *Gateway) { // a return of nil has cleared g by then
		if err != nil {
			_ = built.Close()
		}
	}(g)
	if g.license, err = license.Open(cfg.License, opts.LicenseKey, g.services.Now); err != nil {
		return nil, fmt.Errorf("license: %w", err)
	}
	g.health = health.New(health.Options{
		License: g.license, Dropped: func() uint64 { return g.services.Audit.DroppedRecords() }, Logger: g.services.Log, Now: g.services.Now,
	})
	g.license.Changed = g.health.LogLicense
	if g.services.Proxies, err = clientip.New(cfg.TrustedProxies, cfg.ClientAddressHeader); err != nil {
		return nil, err
	}
	if g.services.Router, err = upstream.NewRouter(cfg.Routes); err != nil {
		return nil, err
	}
	if err = g.openUpstreams(cfg); err != nil {
		return nil, err
	}
	if g.tls, err = certificate.Load(cfg.TLS); err != nil {
		return nil, err
	}
	if err = g.openState(cfg, opts); err != nil {
		return nil, err
	}
	g.verifier = auth.OpenVerifier(g.services.Now, filepath.Join(cfg.StateDirectory(), "known-keys.json"), g.services.Log)
	if err = g.openLimits(cfg); err != nil {
		return nil, err
	}
	if err = g.openFederation(cfg); err != nil {
		return nil, err
	}
	if err = g.openSessions(cfg); err != nil {
		return nil, err
	}
	if err = g.openObserver(cfg); err != nil {
		return nil, err
	}
	if g.reporter != nil {
		g.services.Quality = quality.New()
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
	if g.services.Governance != nil {
		wg.Go(func() { g.services.Governance.Run(ctx) })
	}
	if g.services.Search != nil {
		wg.Go(func() { g.services.Search.Run(ctx) })
	}
	wg.Go(func() { g.services.Federation.Run(ctx) })
	wg.Go(func() { g.services.Pins.Run(ctx) })
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
	return g.services.Proxies.Limit(a, g.services.Live.Load().Config.Limits.ConnectionsPerAddress)
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
	g.services.Background.Stop()
	g.oauth.Close()
	if g.verifier != nil {
		g.verifier.Close()
	}
	var errs []error
	errs = append(errs, targets.Close(g.services.Targets))
	if l := g.services.Live.Load(); l != nil {
		l.Verdict.Guards.Close()
	}
	if g.redis != nil {
		errs = append(errs, g.redis.Close())
	}
	errs = append(errs, g.services.Sessions.Close())
	if g.services.Audit != nil {
		g.services.Refused.Close(refusedPatience)
		errs = append(errs, g.services.Audit.Close())
	}
	g.services.Failures.Close()
	errs = append(errs, g.observer.Close())
	return errors.Join(errs...)
}

// refusedPatience bounds how long the counts of refused requests may take to reach
// the audit file when the gateway closes.
const refusedPatience = 4 * time.Second
