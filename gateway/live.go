package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc/gateway/config"
	"svc/gateway/diag"
	"svc/gateway/exchange"
	"svc/gateway/snapshot"
)

// build makes the snapshot of a configuration, without side effects on the running gateway.
func (g *Gateway) build(cfg *config.File) (*snapshot.Snapshot, error) {
	s, err := snapshot.Build(cfg, snapshot.Sources{
		Listen: g.listen, Secure: g.tls != nil, OffersTools: g.services.Search != nil, Limits: g.services.Limits,
		Verifier: g.verifier, OAuth: g.oauth, Logger: g.services.Log, Now: g.services.Now,
	})
	if err != nil {
		return nil, err
	}
	s.Verdict.OfTool = g.services.OfTool
	return s, nil
}

// activate puts snapshot l in force for every later request. It cannot fail.
func (g *Gateway) activate(l *snapshot.Snapshot) {
	if old := g.services.Live.Swap(l); old != nil {
		old.Verdict.Guards.Close()
	}
	l.Callers.Activate()
	g.observer.Adopt(&l.Config.Telemetry)
	g.services.Bodies.SetLimit(l.Config.Limits.BodyBytes)
	l.Callers.WarnPublicURL(g.services.Log, g.listen, l.Config.Auth.OAuth.PublicURL)
	g.services.Log.Info("policy rules loaded", "order", l.Rules.Order(), "default_action", l.Config.Policy.DefaultActionName())
}

// Reload reads the configuration again and puts it in force (gateway specification, Top-level
// configuration keys). An invalid configuration changes nothing and is returned as an error.
// Fields that need a restart keep their old values and are listed by /readyz.
func (g *Gateway) Reload(ctx context.Context) (err error) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	defer func() { g.observer.Reloaded(err) }()

	// The audit file is reopened first, also when the configuration is invalid, because an
	// external log rotation (logrotate) ends with this signal.
	if err := g.services.Audit.Reopen(); err != nil {
		g.services.Log.Error("the audit file was not opened again", "error", err)
	}
	loaded, err := g.load()
	if err != nil {
		return fmt.Errorf("the running configuration stays in force: %w", err)
	}
	old := g.services.Live.Load()
	merged, pending := config.Apply(old.Config, loaded)
	// Fields that need a restart keep their old value, so two valid files can merge into an
	// invalid configuration: validate the result.
	check := diag.New()
	if merged.Validate(check.Root()); check.Err() != nil {
		return fmt.Errorf("the running configuration stays in force: with %v as before the restart that they need: %w", pending, check.Err())
	}
	next, err := g.build(merged)
	if err != nil {
		return fmt.Errorf("the running configuration stays in force: %w", err)
	}
	certificate, err := g.tls.Read(merged.TLS)
	if err != nil {
		// The specification keeps the previous certificate and applies the rest of the reload.
		g.services.Log.Error("certificate was not replaced: the previous one stays active", "error", err)
	}
	if err := g.services.Audit.Reconfigure(merged.Audit); err != nil {
		return fmt.Errorf("the running configuration stays in force: audit: %w", err)
	}
	if err := errors.Join(g.services.Pins.Reload(), g.services.Federation.TakeReleases()); err != nil {
		return fmt.Errorf("the running configuration stays in force: %w", err)
	}
	// No step from here on can fail.
	if g.reporter != nil && merged.Audit.Path != old.Config.Audit.Path {
		g.reporter.Follow(merged.Audit.Path)
	}
	g.tls.Use(certificate)
	g.activate(next)
	g.health.SetRestartPending(pending)
	_ = g.license.Reload(merged.License) // Reload logs its errors
	if len(pending) > 0 {
		g.services.Log.Warn("some changes need a restart", "restart_pending", pending)
	}
	g.services.Log.Info("configuration reloaded")
	return nil
}

// Drain makes /readyz respond 503 from now on. Requests are still served.
func (g *Gateway) Drain() { g.health.Drain() }

// ShutdownTimes returns how long /readyz responds 503 before the listener closes, and how long
// the server then waits for requests in flight (gateway specification, shutdown).
func (g *Gateway) ShutdownTimes() (window, grace time.Duration) {
	s := g.services.Live.Load().Config.Shutdown
	return s.DrainSignalWindow, s.Grace
}

// ErrStopping is the cause with which the server cancels the requests that are still in flight
// when shutdown.grace has passed.
var ErrStopping = exchange.ErrStopping

// EndStreams ends the long-lived streams: the standalone streams of GET, and those of
// subscriptions/listen. The server calls it at shutdown, after the listener is closed. Streams
// that begin later end at once.
func (g *Gateway) EndStreams() { g.endStreams() }
