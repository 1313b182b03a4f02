package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc/gateway/config"
	"svc/gateway/request"
	"svc/gateway/upstream/targets"
)

// build makes the snapshot of a configuration, without side effects on the running gateway.
func (g *Gateway) build(cfg *config.File) (*request.Snapshot, error) {
	s, err := request.Build(cfg, request.Sources{
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
func (g *Gateway) activate(l *request.Snapshot) {
	g.services.Flow.Reconfigure(l.Flow.Names(), l.Config.DataFlow.Window)
	if old := g.services.Live.Swap(l); old != nil {
		old.Verdict.Guards.Close()
	}
	l.Callers.Activate()
	g.services.Streams.EndInvalid()
	g.observer.Adopt(&l.Config.Telemetry)
	g.services.Bodies.SetLimit(l.Config.Limits.BodyBytes)
	l.Callers.WarnPublicURL(g.services.Log, g.listen, l.Config.Auth.OAuth.PublicURL)
	g.services.Log.Info("policy rules loaded", "order", l.Rules.Order(), "default_action", l.Config.Policy.DefaultActionName())
}

// Reload reads the configuration again and puts it in force (gateway specification, Top-level
// configuration keys). An invalid configuration changes nothing and is returned as an error.
// Fields that need a restart keep their old values and are listed by /readyz. They keep nothing
// else out of force, nor does a file or disk that cannot be used, so that a rule or a removed key
// takes effect whatever else the configuration changes.
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
	waiting, err := merged.CheckMerged()
	if err != nil {
		return fmt.Errorf("the running configuration stays in force: with %v as before the restart that they need: %w", pending, err)
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
	// What another file or the disk keeps from being applied does not keep the rules and keys out.
	if err := g.services.Audit.Reconfigure(merged.Audit); err != nil {
		merged.Audit.Path = old.Config.Audit.Path
		if again := g.services.Audit.Reconfigure(merged.Audit); again != nil {
			merged.Audit = old.Config.Audit
		}
		pending = append(pending, "audit")
		g.services.Log.Error("the audit section cannot be applied: audit.path, or all of it, stays as before; the rest of the file takes effect", "error", err)
	}
	if err := errors.Join(g.services.Pins.Reload(), g.services.Federation.TakeReleases()); err != nil {
		g.services.Log.Error("approvals or releases of names were not taken: those before stay in use, the rest of the file takes effect", "error", err)
	}
	// No step from here on can fail.
	if g.reporter != nil && merged.Audit.Path != old.Config.Audit.Path {
		g.reporter.Follow(merged.Audit.Path)
	}
	g.tls.Use(certificate)
	g.activate(next)
	g.services.Governance.Reloaded()
	for name, up := range g.services.Targets {
		if n := targets.ReplaceOpen(up); n > 0 {
			g.services.Log.Warn("processes of an upstream end after their calls and start again when they are needed: they can open files that the new configuration names",
				"upstream", name, "processes", n)
		}
	}
	g.health.SetRestartPending(pending)
	_ = g.license.Reload(merged.License) // Reload logs its errors
	if len(pending) > 0 {
		g.services.Log.Warn("some changes need a restart", "restart_pending", pending)
	}
	for _, f := range waiting {
		g.services.Log.Warn("a setting has no effect before the restart, because it refers to a field that needs one", "path", f.Path, "cause", f.Message)
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
var ErrStopping = request.ErrStopping

// EndStreams ends the long-lived streams: the standalone streams of GET, and those of
// subscriptions/listen. The server calls it at shutdown, after the listener is closed. Streams
// that begin later end at once.
func (g *Gateway) EndStreams() { g.endStreams() }
