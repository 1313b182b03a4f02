package gateway

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/catalog"
	"svc/gateway/catalog/federation"
	"svc/gateway/catalog/pins"
	"svc/gateway/catalog/search"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/policy/plane"
	"svc/gateway/redis"
	"svc/gateway/refusal"
	"svc/gateway/request"
	"svc/gateway/request/multiplex"
	"svc/gateway/session"
	"svc/gateway/telemetry"
	"svc/gateway/upstream"
	"svc/gateway/upstream/targets"
	"svc/gateway/upstream/translate"
)

// openLimits opens the store of the rate limits. It is kept across reloads, so that no bucket is
// reset. A store that cannot be reached yet is no error: fail_open applies until it can.
func (g *Gateway) openLimits(cfg *config.File) error {
	if cfg.RateLimitStore.Type != redis.TypeRedis {
		g.services.Limits = redis.NewMemory(0, g.services.Now())
		return nil
	}
	store, err := redis.NewRedis(cfg.RateLimitStore, g.services.Log)
	if err != nil {
		return err
	}
	if err := store.Authenticate(g.sessionKey); err != nil {
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
	logOptions := audit.Options{Now: g.services.Now, Logger: g.services.Log, StateDir: cfg.StateDirectory()}
	reports := cfg.ControlPlane.Active() && opts.Sink != nil
	if reports {
		logOptions.MaxBacklog = uint64(cfg.ControlPlane.Traces.MaxBacklog)
	}
	var err error
	if g.services.Audit, err = audit.Open(cfg.Audit, logOptions); err != nil {
		return fmt.Errorf("open audit file %s: %w", cfg.Audit.Path, err)
	}
	g.services.Refused = request.NewRefused(request.Options{Write: g.services.Audit.WriteRefused, Lost: g.services.Audit.CountLost, Now: g.services.Now, Logger: g.services.Log})
	if !reports {
		return nil
	}
	g.reporter, err = audit.NewReporter(cfg.ControlPlane, audit.ReporterOptions{
		Reason: refusal.ReasonOf, ListenEnded: refusal.ListenEnded, Shutdown: refusal.Shutdown.Kind,
		AuditPath: cfg.Audit.Path, StateDir: cfg.StateDirectory(),
		Sink: opts.Sink, Status: opts.SinkStatus, Reported: g.services.Audit.SetReported, Logger: g.services.Log, From: opts.ReportFrom,
	})
	if err != nil {
		return fmt.Errorf("reporter: %w", err)
	}
	if opts.Heads == nil {
		return nil
	}
	g.heads, err = audit.NewHeadReporter(audit.HeadOptions{
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
		Upstreams: g.services.Targets, Default: g.services.DefaultUpstream, Own: g.services.Federation != nil, Background: g.services.Background, Version: g.version,
		Sealer: sealer, Logger: g.services.Log, Joined: g.services.Merged.Attach,
	}, state)
	return nil
}

// openSearch starts the tool search if the configuration enables it. In passthrough mode lists
// are forwarded, so no index is built.
func (g *Gateway) openSearch(cfg *config.File) {
	c := &cfg.ToolSearch
	if !c.Enabled || c.Mode != config.ToolSearchSynthesize {
		return
	}
	g.services.Search = search.New(search.Options{
		MaxResults: c.MaxResults, Call: c.Calls(cfg.Federation.Enabled), Merged: g.services.Federation.Merge(), Lists: g.services.Lists,
		Upstreams: g.services.Router.Upstreams(), Names: g.services.Names, Route: g.services.Router.Match, // tools of other upstreams cannot be called
		Interval: max(c.RefreshInterval, time.Second), Logger: g.services.Log, Now: g.services.Now,
		State: filepath.Join(cfg.StateDirectory(), "tool-definitions.json"), Changed: g.toolChanged,
	})
}

// openObserver opens telemetry. State is called at a scrape, when all parts are open.
func (g *Gateway) openObserver(cfg *config.File) (err error) {
	g.observer, err = newObserver(&cfg.Telemetry, observerOptions{
		Version: g.version, Logger: g.services.Log, Ready: g.health.ServeReason,
		State: func() telemetry.State {
			l := g.services.Live.Load()
			parts := observedParts{
				Health: g.health, Verifier: g.verifier, Audit: g.services.Audit, Merged: &g.services.Merged, Sessions: g.services.Sessions, Upstreams: g.services.Targets,
				Limits: g.services.Limits, Redis: g.redis, Guards: l.Verdict.Guards, Callers: l.Callers, Reporter: g.reporter,
				Governance: g.services.Governance, Search: g.services.Search, Federation: g.services.Federation, Pins: g.services.Pins, Tracer: g.observer.Tracer, Disk: g.disk, ClockJumps: g.clockJumps.Load(),
			}
			return parts.State()
		},
	})
	g.services.Tracer = g.observer.Tracer
	g.services.Metrics = g.observer.Metrics
	return err
}

// openFederation makes the virtual upstream with the merged lists the default upstream, if the
// configuration enables federation.
func (g *Gateway) openFederation(cfg *config.File) (err error) {
	if !cfg.Federation.Enabled {
		g.services.Names, err = request.NamesOf(cfg.Upstreams)
		return err
	}
	opts := federation.Options{
		Config: cfg.Federation, Fallback: cfg.DefaultUpstream, StateDir: cfg.StateDirectory(), Key: g.sessionKey,
		Lists: g.services.Lists, Version: g.version, Logger: g.services.Log, Now: g.services.Now, May: g.services.MayAsk, Shared: federation.SharedIn(g.redis), Seen: g.redis, Tasks: func() federation.Tasks { return g.services.Sessions },
	}
	if g.services.Federation, err = federation.New(opts); err != nil {
		return fmt.Errorf("federation: %w", err)
	}
	g.services.DefaultUpstream, g.services.Views = federation.Name, auth.New(cfg.Views)
	g.services.Targets[federation.Name] = &upstream.Upstream{Name: federation.Name, Transport: g.services.Federation, Timeout: cfg.Federation.ListTimeout}
	return nil
}

// warnSearch logs a warning when the rules deny the search tool to callers without claims.
func (g *Gateway) warnSearch(l *request.Snapshot) {
	if g.services.Search != nil && !l.Verdict.MayAsk(new(auth.Principal), nil, g.services.SearchUpstream(), mcp.Tool, search.Name) {
		g.services.Log.Warn("the rules deny the search tool to callers without claims: tools/list is empty for them",
			"fix", "add a rule with action: allow and when: {tool_name: "+search.Name+"}")
	}
}

// toolChanged writes an audit line for a tool whose definition differs from the one that was seen
// before.
func (g *Gateway) toolChanged(upstream, tool string) {
	now := g.services.Now()
	rec := audit.Record{
		Kind: audit.KindEvent, Time: now, RequestID: request.NewID(now), Action: audit.ActionAllow,
		ErrorKind: refusal.ToolChanged.Kind, Upstream: upstream, Tool: tool,
	}
	if err := g.services.Audit.Write(context.Background(), &rec); err != nil {
		g.services.Log.Error("audit line of a changed tool was not written", "upstream", upstream, "tool", tool, "error", err)
	}
}

// openGovernance opens the policies of the control plane, if the configuration enables them.
func (g *Gateway) openGovernance(cfg *config.File, opts Options) (err error) {
	c := &cfg.ControlPlane
	if !c.Governance.On() || opts.Governance == nil {
		return nil
	}
	previous, err := session.LoadPrevious(cfg.Sessions.PreviousKeyFiles)
	if err != nil {
		return err
	}
	g.services.Governance, err = plane.Open(plane.Options{
		Source: opts.Governance, Status: opts.SinkStatus, Origin: c.URL, StateDir: cfg.StateDirectory(),
		Interval: c.Governance.RefreshInterval, Timeout: c.Traces.Timeout, Environment: c.Environment,
		Labels: func() []string {
			current := cfg // until the first configuration is active
			if live := g.services.Live.Load(); live != nil {
				current = live.Config
			}
			return current.DataFlow.Names().List()
		},
		Detectors: plane.Built{}, TokenKeys: append([][]byte{g.sessionKey}, previous...), Logger: g.services.Log, Now: g.services.Now,
	})
	return err
}

// openApprovals opens the approvals of calls by people, if there is a control plane.
func (g *Gateway) openApprovals(cfg *config.File, opts Options) (err error) {
	if opts.Approvals == nil || len(cfg.ControlPlane.URL) == 0 {
		return nil
	}
	if g.services.Gateway, err = audit.GatewayName(cfg.ControlPlane.Gateway); err != nil {
		return err
	}
	g.services.Approvals, err = plane.NewApprovals(plane.ApprovalOptions{
		Calls: *opts.Approvals, Status: opts.SinkStatus, Key: g.sessionKey, Logger: g.services.Log, Now: g.services.Now,
	})
	return err
}

// openUpstreams opens the transports of the configured upstreams, their translators and the reader
// of their lists.
func (g *Gateway) openUpstreams(cfg *config.File) (err error) {
	if g.sessionKey, err = session.LoadKey(cfg.Sessions.KeyFile, cfg.StateDirectory()); err != nil {
		return err
	}
	if g.services.Targets, err = targets.Open(cfg.Targets(), targets.Options{Version: g.version, Logger: g.services.Log, Now: g.services.Now, Current: func() *targets.Settings { return g.services.Live.Load().File().Targets() },
		Changed: func(name string) { g.services.Lists.Changed(name, "") }}); err != nil {
		return err
	}
	g.upstreams, err = translate.Open(cfg.Upstreams, g.services.Targets, translate.Options{
		Key: g.sessionKey, Version: g.version, Background: g.services.Background, Logger: g.services.Log, Now: g.services.Now,
		Level: func(ctx context.Context, id session.ID) []byte {
			return g.services.Sessions.State.Settings.Level(ctx, id)
		},
	}, func() (translate.Store, bool) { return g.redis.Mailboxes(), g.redis != nil })
	if err != nil {
		return err
	}
	return g.openLists(cfg)
}

// listTime bounds a reading for a caller without federation.
const listTime = 10 * time.Second

// openLists opens the reader of the upstreams' lists, and the pins of what they list. Only lists
// that federation, tool search or pins need are read.
func (g *Gateway) openLists(cfg *config.File) (err error) {
	opts := catalog.ReaderOptions{
		Upstreams: cfg.Upstreams, Targets: g.services.Targets, Timeout: listTime, Version: g.version, Logger: g.services.Log, Now: g.services.Now, Bodies: g.services.Bodies,
		Note: func(name string, c *upstream.Caller, o *catalog.Offer) { g.services.Pins.Note(name, c, o) },
		Keep: func(name string, o *catalog.Offer) *catalog.Offer { return g.services.Pins.Keep(name, o) },
	}
	if cfg.Federation.Enabled {
		opts.Timeout = cfg.Federation.ListTimeout
	}
	g.services.Lists = catalog.NewReader(opts)
	g.services.Pins, err = pins.Open(cfg.Pinning(), g.services.Lists, g.services.Log, g.services.Now)
	return err
}
