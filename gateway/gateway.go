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
	"svc/gateway/base/background"
	"svc/gateway/config"
	"svc/gateway/http1"
	"svc/gateway/mcp"
	"svc/gateway/policy/detect"
	"svc/gateway/policy/plane"
	"svc/gateway/redis"
	"svc/gateway/request"
	"svc/gateway/request/streams"
	"svc/gateway/session/bodies"
	"svc/gateway/upstream"
	"svc/gateway/upstream/targets"
	"svc/gateway/upstream/translate"
)

// Options are the inputs of New.
type Options struct {
	// Config is the configuration to start with, as config.Load returned it.
	Config *config.File
	// Load reads the configuration again, for Reload. Its error lists every problem of the
	// configuration.
	Load func() (*config.File, error)
	// Logger receives log messages for operators; nil discards them.
	Logger *slog.Logger
	// Version is the version in the clientInfo that the gateway sends to upstreams.
	Version string
	// LicenseKey is the public key of the build, in PEM. It is used when the configuration names
	// no key, and may be empty.
	LicenseKey []byte
	// Sink receives the traces; nil when the gateway reports no traces.
	Sink audit.Sink
	// Heads receives the head of the audit chain; nil when it is not reported.
	Heads audit.HeadSink
	// Report receives reports of this process for the list of gateways; nil when there are none. It
	// requires SinkStatus.
	Report ReportFunc
	// SinkStatus returns the HTTP status of an error of Sink, 0 when there was no response, and
	// the delay of its Retry-After. It is required with Sink.
	SinkStatus func(error) (status int, retryAfter time.Duration)
	// ReportFrom is a time since which requests are reported to Sink again, although they were
	// reported before; zero reports each once.
	ReportFrom time.Time
	// Governance is the source of the control plane's policies; nil when they are not enforced.
	// It requires SinkStatus.
	Governance plane.Source
	// Approvals are the requests about approvals to the control plane; nil without one. They require
	// SinkStatus.
	Approvals *plane.ApprovalCalls
	// Roots are the certificate authorities that are trusted for fetching the keys of a token
	// issuer and client metadata documents; nil means those of the system.
	Roots *x509.CertPool
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// Gateway is an http.Handler. It is safe for concurrent use. The state that a reload replaces is
// in services.Live; all other state is created by New, belongs to the Gateway and is updated by
// name.
type Gateway struct {
	// services is the state that requests use.
	services request.Services

	load    func() (*config.File, error)
	version string
	listen  string

	upstreams  *translate.Upstreams // translators, one for each configured upstream
	license    *auth.Checker
	health     *healthProbes
	disk       *diskProbe
	clockJumps atomic.Uint64
	verifier   *auth.Verifier
	oauth      *auth.OAuth
	redis      *redis.Redis        // nil when limits are kept in memory
	reporter   *audit.Reporter     // nil when the gateway reports no traces
	heads      *audit.HeadReporter // nil when audit heads are not reported
	fleet      *fleetReporter      // nil when the gateway does not report itself
	tls        *certificates       // nil when the gateway serves plain HTTP
	observer   observer
	sessionKey []byte // encrypts handles and cursors that clients hold

	endStreams context.CancelFunc
	reloading  sync.Mutex
}

var _ http.Handler = (*Gateway)(nil)

// New builds a gateway and validates everything that can be invalid. After an error no goroutine
// runs and no file is open.
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
		on.Now, on.Since = time.Now, time.Since // time.Since uses the monotonic clock
	}
	on.DefaultUpstream, on.Versions = cfg.DefaultUpstream, mcp.Allowed(cfg.AllowedProtocolVersions)
	on.Bodies, on.WriteTimeout, on.Merged.Pauses = bodies.New(), streams.DefaultWriteTimeout, streams.Reopening
	g.services.Failures, g.services.Strangers = request.NewFailures(g.services.Log), request.NewStrangers(g.services.Log)
	g.services.Stopping, g.endStreams = context.WithCancel(context.Background())
	g.services.Background = background.New(g.services.Log)
	g.oauth = auth.NewOAuth(auth.OAuthOptions{Now: g.services.Now, Logger: g.services.Log, Roots: opts.Roots})
	defer func(built *Gateway) { // return nil, err has set g to nil by now
		if err != nil {
			_ = built.Close()
		}
	}(g)
	if g.license, err = auth.Open(cfg.License, opts.LicenseKey, g.services.Now); err != nil {
		return nil, fmt.Errorf("license: %w", err)
	}
	g.health = newProbes(probeOptions{
		License: g.license, Dropped: func() uint64 { return g.services.Audit.DroppedRecords() }, Logger: g.services.Log, Now: g.services.Now,
	})
	g.license.Changed, g.license.Ending = g.health.LogLicense, g.health.LogEnding
	g.disk = newDiskProbe(cfg.StateDirectory(), cfg.Audit.Path, g.services.Log)
	if g.services.Proxies, err = http1.NewClientAddress(cfg.TrustedProxies, cfg.ClientAddressHeader); err != nil {
		return nil, err
	}
	if g.services.Router, err = upstream.NewRouter(cfg.Routes); err != nil {
		return nil, err
	}
	if err = g.openUpstreams(cfg); err != nil {
		return nil, err
	}
	if g.tls, err = load(cfg.TLS); err != nil {
		return nil, err
	}
	if err = g.openState(cfg, opts); err != nil {
		return nil, err
	}
	g.verifier = auth.OpenVerifier(g.services.Now, filepath.Join(cfg.StateDirectory(), "known-keys.json"), g.services.Log)
	if err = g.openLimits(cfg); err != nil {
		return nil, err
	}
	if err = g.openFlow(cfg); err != nil {
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
	if g.reporter != nil || cfg.ControlPlane.Governance.On() {
		g.services.Quality = detect.New(g.reporter != nil)
	}
	if err = g.openGovernance(cfg, opts); err != nil {
		return nil, fmt.Errorf("control_plane.governance: %w", err)
	}
	if err = g.openApprovals(cfg, opts); err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	if err = g.openFleet(cfg, opts); err != nil {
		return nil, err
	}
	g.openSearch(cfg)
	next, err := g.build(cfg)
	if err != nil {
		return nil, err
	}
	g.activate(next)
	cfg.LogWarnings(g.services.Log)
	g.health.LogStart()
	g.warnSearch(next)
	return g, nil
}

// Run does the background work (license checks, reports, telemetry) until ctx ends, and returns
// when all of it has stopped.
func (g *Gateway) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	var reported, observed error
	wg.Go(targets.KeepLimits(ctx, g.services.Live.Load().Config.Targets(), g.services.Log)) // the limits of now, before a program runs
	wg.Go(func() { observed = g.observer.Run(ctx) })
	wg.Go(func() { g.license.Run(ctx) })
	wg.Go(func() { g.disk.run(ctx) })
	wg.Go(func() { watchClock(ctx, g.services.Now, &g.clockJumps, g.services.Log) })
	wg.Go(func() { g.verifier.Run(ctx) })
	wg.Go(func() { g.upstreams.Run(ctx) })
	if g.services.Governance != nil {
		wg.Go(func() { g.services.Governance.Run(ctx) })
	}
	wg.Go(func() { g.services.Lists.Run(ctx) })
	wg.Go(func() { g.services.Federation.Run(ctx) })
	if g.reporter != nil {
		wg.Go(func() { reported = g.reporter.Run(ctx) })
	}
	if g.heads != nil {
		wg.Go(func() { g.heads.Run(ctx) })
	}
	if g.fleet != nil {
		wg.Go(func() { g.fleet.Run(ctx) })
	}
	wg.Wait()
	if reported != nil && !errors.Is(reported, context.Canceled) {
		return errors.Join(fmt.Errorf("reporter: %w", reported), observed)
	}
	return observed
}

// ConnectionLimit returns the number of connections that may be open from an address. It is 0,
// for no limit, for loopback and trusted proxies, because they carry many clients.
func (g *Gateway) ConnectionLimit(a netip.Addr) int {
	return g.services.Proxies.Limit(a, g.services.Live.Load().Config.Limits.ConnectionsPerAddress)
}

// TLSConfig returns the TLS configuration of the listener, or nil for plain HTTP. Its certificate
// follows reloads.
func (g *Gateway) TLSConfig() *tls.Config {
	if g.tls == nil {
		return nil
	}
	return g.tls.Config()
}

// OnClientCA registers recheck, which is called after a reload that changed tls.client_ca. It
// must close each connection for which valid returns false, after the request in flight on it.
func (g *Gateway) OnClientCA(recheck func(valid func(*tls.ConnectionState) bool)) {
	g.tls.OnClientCA(recheck)
}

// Close waits for background calls, and closes the audit file and the connections to upstreams
// and to the rate-limit store. Call it after the last request has ended and Run has returned.
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
	if g.services.Flow != nil {
		errs = append(errs, g.services.Flow.Close())
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
	g.services.Strangers.Close()
	errs = append(errs, g.observer.Close())
	return errors.Join(errs...)
}

// refusedPatience bounds how long Close waits until the counts of refused requests are in the
// audit file.
const refusedPatience = 4 * time.Second
