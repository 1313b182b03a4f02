package gateway

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/config"
	"svc/gateway/federation"
	"svc/gateway/govern"
	"svc/gateway/govern/detectors"
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/observer"
	"svc/gateway/origin"
	"svc/gateway/pinning"
	"svc/gateway/ratelimit"
	"svc/gateway/refusal"
	"svc/gateway/refused"
	"svc/gateway/report"
	"svc/gateway/requestid"
	"svc/gateway/routing"
	"svc/gateway/session"
	"svc/gateway/snapshot"
	"svc/gateway/targets"
	"svc/gateway/telemetry"
	"svc/gateway/toolsearch"
	"svc/gateway/translate"
	"svc/gateway/translate/handover"
	"svc/gateway/transport"
	"svc/gateway/views"
)

// openLimits opens the store of the rate limits. It is kept across reloads, so that no bucket is
// reset. A store that cannot be reached yet is no error: fail_open applies until it can.
func (g *Gateway) openLimits(cfg *config.File) error {
	if cfg.RateLimitStore.Type != ratelimit.TypeRedis {
		g.services.Limits = ratelimit.NewMemory(0, g.services.Now())
		return nil
	}
	store, err := ratelimit.NewRedis(cfg.RateLimitStore, g.services.Log)
	if err != nil {
		return err
	}
	g.services.Limits, g.redis = store, store
	g.services.Background.Run(func(ctx context.Context) {
		if err := store.Ping(ctx); err != nil && ctx.Err() == nil {
			g.services.Log.Warn("the rate-limit store does not answer: until it does, fail_open decides",
				"fail_open", cfg.RateLimitStore.FailOpen, "error", err)
		}
	})
	return nil
}

// openState opens the state on disk: the audit log and the reporter's offset.
func (g *Gateway) openState(cfg *config.File, opts Options) error {
	logOptions := audit.Options{Now: g.services.Now, Logger: g.services.Log, StateDir: cfg.StateDirectory(), OpenFile: opts.openAudit}
	reports := cfg.ControlPlane.Active() && opts.Sink != nil
	if reports {
		logOptions.MaxBacklog = uint64(cfg.ControlPlane.Traces.MaxBacklog)
	}
	var err error
	if g.services.Audit, err = audit.Open(cfg.Audit, logOptions); err != nil {
		return fmt.Errorf("open audit file %s: %w", cfg.Audit.Path, err)
	}
	g.services.Refused = refused.New(refused.Options{Write: g.services.Audit.WriteRefused, Lost: g.services.Audit.CountLost, Now: g.services.Now, Logger: g.services.Log})
	if !reports {
		return nil
	}
	g.reporter, err = report.New(cfg.ControlPlane, report.Options{
		AuditPath: cfg.Audit.Path, StateDir: cfg.StateDirectory(),
		Sink: opts.Sink, Status: opts.SinkStatus, Reported: g.services.Audit.SetReported, Logger: g.services.Log,
	})
	if err != nil {
		return fmt.Errorf("reporter: %w", err)
	}
	if opts.Heads == nil {
		return nil
	}
	g.heads, err = report.NewHeadReporter(report.HeadOptions{
		Gateway: cfg.ControlPlane.Gateway, Sink: opts.Heads, Logger: g.services.Log, Log: g.services.Audit,
	})
	return err
}

// openSessions opens the session state: upstream sessions, settings and tasks of clients'
// sessions.
func (g *Gateway) openSessions(cfg *config.File) error {
	sealer, err := session.NewSealer(g.sessionKey)
	if err != nil {
		return err
	}
	state := multiplex.StateOptions{
		Dir: cfg.StateDirectory(), MaxTasks: cfg.TaskAffinity.MaxEntries, TaskTTL: cfg.TaskAffinity.TTL, Now: g.services.Now,
	}
	if g.redis != nil { // replicas that share rate limits share sessions too
		state.Replicas = &multiplex.Replicas{Sessions: g.redis.Records(), Tasks: g.redis}
	}
	g.services.Sessions = multiplex.Open(multiplex.Options{
		Upstreams: g.services.Targets, Default: g.services.DefaultUpstream, Background: g.services.Background, Version: g.version,
		Sealer: sealer, Logger: g.services.Log, Joined: g.services.Merged.Attach,
	}, state)
	return nil
}

// warn logs settings that are valid and probably not intended.
func (g *Gateway) warn(cfg *config.File) {
	if host, _, err := net.SplitHostPort(cfg.Listen); err == nil && !cfg.Auth.Enabled && !origin.IsLoopback(host) {
		g.services.Log.Warn("AUTHENTICATION IS OFF and the gateway listens beyond loopback: anyone who reaches it may call every tool that policy allows",
			"listen", cfg.Listen, "fix", "set auth.enabled: true and list keys, or listen on 127.0.0.1")
	}
}

// openSearch starts the tool search if the configuration enables it. In passthrough mode lists
// are forwarded, so no index is built.
func (g *Gateway) openSearch(cfg *config.File) {
	c := &cfg.ToolSearch
	if !c.Enabled || c.Mode != config.ToolSearchSynthesize {
		return
	}
	var sources []toolsearch.Source
	if !cfg.Federation.Enabled { // the search reads the merged lists instead
		protocols := map[string]string{}
		for i := range cfg.Upstreams {
			protocols[cfg.Upstreams[i].Name] = cfg.Upstreams[i].Protocol
		}
		for _, name := range g.services.Router.Upstreams() { // tools of other upstreams cannot be called
			sources = append(sources, toolsearch.Source{Name: name, Transport: g.services.Targets[name].Direct, Protocol: protocols[name]})
		}
	}
	g.services.Search = &toolsearch.Service{MaxResults: c.MaxResults, Call: c.Calls(cfg.Federation.Enabled), Refresher: toolsearch.New(toolsearch.Options{
		Sources: sources, Route: g.services.Router.Match, Reserved: toolsearch.Name,
		Interval: c.RefreshInterval, Version: g.version, Logger: g.services.Log,
		State: filepath.Join(cfg.StateDirectory(), "tool-definitions.json"), Changed: g.toolChanged, Keep: g.services.Named(g.services.Pins.Keep),
	})}
	if g.services.Federation != nil {
		g.services.Search.Merged = g.services.Federation
	}
}

// openObserver opens telemetry. State is called at a scrape, when all parts are open.
func (g *Gateway) openObserver(cfg *config.File) (err error) {
	g.observer, err = observer.Open(&cfg.Telemetry, observer.Options{
		Version: g.version, Logger: g.services.Log, Ready: g.health.ServeReason,
		State: func() telemetry.State {
			l := g.services.Live.Load()
			parts := observer.Parts{
				Health: g.health, Verifier: g.verifier, Audit: g.services.Audit, Merged: &g.services.Merged, Sessions: g.services.Sessions, Upstreams: g.services.Targets,
				Limits: g.services.Limits, Redis: g.redis, Guards: l.Verdict.Guards, Callers: l.Callers, Reporter: g.reporter,
				Governance: g.services.Governance, Search: g.services.Search, Federation: g.services.Federation, Pins: g.services.Pins, Tracer: g.observer.Tracer,
			}
			return parts.State()
		},
	})
	g.services.Tracer = g.observer.Tracer
	if m := g.observer.Metrics; m != nil {
		g.services.Metrics, g.services.Callouts = m, m
	}
	return err
}

// openFederation makes the virtual upstream with the merged lists the default upstream, if the
// configuration enables federation.
func (g *Gateway) openFederation(cfg *config.File) (err error) {
	if !cfg.Federation.Enabled {
		g.services.Names, err = routing.NamesOf(cfg.Upstreams)
		return err
	}
	opts := federation.Options{
		Config: cfg.Federation, Fallback: cfg.DefaultUpstream, StateDir: cfg.StateDirectory(), Key: g.sessionKey,
		Version: g.version, Logger: g.services.Log, Now: g.services.Now, May: g.services.MayAsk, Pins: g.services.Pins, Shared: federation.SharedIn(g.redis), Seen: federation.SeenIn(g.redis), Tasks: func() federation.Tasks { return g.services.Sessions },
	}
	for i := range cfg.Upstreams {
		t := g.services.Targets[cfg.Upstreams[i].Name]
		opts.Upstreams = append(opts.Upstreams, federation.Upstream{Config: &cfg.Upstreams[i], Transport: t.Direct, Announcing: t.Transport})
	}
	if g.services.Federation, err = federation.New(opts); err != nil {
		return fmt.Errorf("federation: %w", err)
	}
	g.services.DefaultUpstream, g.services.Views = federation.Name, views.New(cfg.Views)
	g.services.Targets[federation.Name] = &transport.Upstream{Name: federation.Name, Transport: g.services.Federation, Timeout: cfg.Federation.ListTimeout}
	return nil
}

// warnSearch logs a warning when the rules deny the search tool to callers without claims.
func (g *Gateway) warnSearch(l *snapshot.Snapshot) {
	if g.services.Search != nil && !l.Verdict.MayAsk(new(auth.Principal), nil, g.services.SearchUpstream(), mcp.MethodToolsCall, toolsearch.Name) {
		g.services.Log.Warn("the rules deny the search tool to callers without claims: tools/list is empty for them",
			"fix", "add a rule with action: allow and when: {tool_name: "+toolsearch.Name+"}")
	}
}

// toolChanged writes an audit line for a tool whose definition differs from the one that was seen
// before.
func (g *Gateway) toolChanged(upstream, tool string) {
	now := g.services.Now()
	rec := audit.Record{
		Kind: audit.KindEvent, Time: now, RequestID: requestid.New(now), Action: audit.ActionAllow,
		ErrorKind: refusal.ToolChanged.Kind, Upstream: upstream, Tool: tool,
	}
	if err := g.services.Audit.Write(context.Background(), &rec); err != nil {
		g.services.Log.Error("audit line of a changed tool was not written", "upstream", upstream, "tool", tool, "error", err)
	}
}

// openGovernance opens the policies of the control plane, if the configuration enables them.
func (g *Gateway) openGovernance(cfg *config.File, opts Options) (err error) {
	c := &cfg.ControlPlane
	if !c.Governance.Enabled || opts.Governance == nil {
		return nil
	}
	g.services.Governance, err = govern.Open(govern.Options{
		Source: opts.Governance, Status: opts.SinkStatus, Origin: c.URL, StateDir: cfg.StateDirectory(),
		Interval: c.Governance.RefreshInterval, Timeout: c.Traces.Timeout,
		Detectors: detectors.Built{}, Logger: g.services.Log, Now: g.services.Now,
	})
	return err
}

// openUpstreams opens the transports of the configured upstreams, their pins and their
// translators.
func (g *Gateway) openUpstreams(cfg *config.File) (err error) {
	if g.sessionKey, err = session.LoadKey(cfg.Sessions.KeyFile, cfg.StateDirectory()); err != nil {
		return err
	}
	if g.services.Targets, err = targets.Open(cfg, targets.Options{Version: g.version, Logger: g.services.Log, Now: g.services.Now, Changed: func(name string) { g.services.Federation.Changed(name) }}); err != nil {
		return err
	}
	if g.services.Pins, err = pinning.Open(cfg, g.services.Targets, pinning.Options{Version: g.version, Logger: g.services.Log, Now: g.services.Now, Changed: func(name string) { g.services.Federation.Approved(name) }}); err != nil {
		return err
	}
	g.upstreams, err = translate.Open(cfg.Upstreams, g.services.Targets, translate.Options{
		Key: g.sessionKey, Version: g.version, Background: g.services.Background, Logger: g.services.Log, Now: g.services.Now,
		Level: func(ctx context.Context, id session.ID) []byte {
			return g.services.Sessions.State.Settings.Level(ctx, id)
		},
	}, func() (handover.Store, bool) { return g.redis.Mailboxes(), g.redis != nil })
	return err
}
