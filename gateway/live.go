package gateway

import (
	"context"
	"fmt"
	"time"

	"svc/gateway/admission"
	"svc/gateway/auth"
	"svc/gateway/caller"
	"svc/gateway/config"
	"svc/gateway/diag"
	"svc/gateway/guardrail"
	"svc/gateway/headers"
	"svc/gateway/origin"
	"svc/gateway/policy"
	"svc/gateway/verdict"
)

// live is all of the configuration that a reload can replace: one immutable
// value behind one pointer. A request reads the pointer once and sees one
// configuration from start to end; a long stream reads it for each frame.
type live struct {
	cfg   *config.File
	rules *policy.Set
	// verdict is what messages are judged by.
	verdict   verdict.Snapshot
	callers   *caller.Rules
	admission admission.Rules
	// forwardHeaders are forward_headers in canonical form.
	forwardHeaders []string
}

// build makes the value for a configuration. It changes nothing that runs.
func (g *Gateway) build(cfg *config.File) (*live, error) {
	l := &live{
		cfg:            cfg,
		admission:      admission.Rules{Origins: origin.New(g.listen, cfg.AllowedOrigins, cfg.AllowedHosts, cfg.Auth.Header)},
		forwardHeaders: headers.Canonical(cfg.ForwardHeaders),
	}
	if in := cfg.InputRateLimit; in.Enabled {
		l.admission.Limit = admission.Limit{
			Store: g.limits, RequestsPerSecond: in.RequestsPerSecond, Burst: in.Burst, FailOpen: cfg.RateLimitStore.FailOpen,
		}
	}
	var err error
	if l.rules, err = policy.Compile(cfg.Policy); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	l.verdict = verdict.Snapshot{
		Rules:       policy.NewMemory(l.rules), // a reload begins a new one
		FilterLists: cfg.FiltersLists(), OffersTools: g.search != nil, FailOpen: cfg.RateLimitStore.FailOpen,
	}
	for _, r := range l.rules.Rules() {
		l.verdict.Strips = l.verdict.Strips || r.Action == policy.StripApp && !r.Observe
	}
	if l.verdict.Guards, err = g.buildGuards(cfg); err != nil {
		return nil, err
	}
	if l.callers, err = caller.New(cfg.Auth, auth.Identity(cfg.Identity), caller.Sources{
		Verifier: g.verifier, OAuth: g.oauth, Listen: g.listen, Secure: g.tls != nil,
	}); err != nil {
		return nil, err
	}
	return l, nil
}

// buildGuards makes the guardrails of a configuration, all breakers closed.
func (g *Gateway) buildGuards(cfg *config.File) (*guardrail.Set, error) {
	set, err := guardrail.New(cfg.Guardrails, g.log, g.now)
	if err != nil {
		return nil, err
	}
	for i := range cfg.Policy.Rules {
		if name := cfg.Policy.Rules[i].Guardrail; name != nil && set.Get(*name) == nil {
			return nil, fmt.Errorf("policy: rules[%d]: no guardrail is named %q", i, *name)
		}
	}
	return set, nil
}

// activate makes l the configuration of every request from now on. It cannot
// fail.
func (g *Gateway) activate(l *live) {
	if old := g.live.Swap(l); old != nil {
		old.verdict.Guards.Close()
	}
	l.callers.Activate()
	g.observer.Adopt(&l.cfg.Telemetry)
	g.bodies.SetLimit(l.cfg.Limits.BodyBytes)
	l.callers.WarnPublicURL(g.log, g.listen, l.cfg.Auth.OAuth.PublicURL)
	g.log.Info("policy rules loaded", "order", l.rules.Order(), "default_action", l.cfg.Policy.DefaultActionName())
}

// Reload reads the configuration again and puts it in force (gateway
// specification, Top-level configuration keys). An invalid one changes nothing;
// the error says why. Fields that need a restart keep their old values and are
// listed by /readyz.
func (g *Gateway) Reload(ctx context.Context) (err error) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	defer func() { g.observer.Reloaded(err) }()

	// First, and whatever the file says: a log rotation by another program ends
	// with this signal.
	if err := g.audit.Reopen(); err != nil {
		g.log.Error("the audit file was not opened again", "error", err)
	}
	loaded, err := g.load()
	if err != nil {
		return fmt.Errorf("the running configuration stays in force: %w", err)
	}
	old := g.live.Load()
	merged, pending := config.Apply(old.cfg, loaded)
	// What needs a restart kept its old value: the whole may be wrong though both
	// files were right.
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
		// The specification keeps the previous certificate and reloads the rest.
		g.log.Error("certificate was not replaced: the previous one stays active", "error", err)
	}
	if err := g.audit.Reconfigure(merged.Audit); err != nil {
		return fmt.Errorf("the running configuration stays in force: audit: %w", err)
	}
	// From here on nothing can fail.
	if g.reporter != nil && merged.Audit.Path != old.cfg.Audit.Path {
		g.reporter.Follow(merged.Audit.Path)
	}
	g.tls.Use(certificate)
	g.activate(next)
	g.health.SetRestartPending(pending)
	_ = g.license.Reload(merged.License) // the log says what is wrong
	if len(pending) > 0 {
		g.log.Warn("some changes need a restart", "restart_pending", pending)
	}
	g.log.Info("configuration reloaded")
	return nil
}

// Drain makes /readyz answer 503 from now on. Requests are still served.
func (g *Gateway) Drain() { g.health.Drain() }

// ShutdownTimes returns how long /readyz answers 503 before connections are
// refused, and how long requests in flight are then waited for (gateway
// specification, shutdown).
func (g *Gateway) ShutdownTimes() (window, grace time.Duration) {
	s := g.live.Load().cfg.Shutdown
	return s.DrainSignalWindow, s.Grace
}
