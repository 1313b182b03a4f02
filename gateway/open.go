package gateway

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"svc/gateway/audit"
	"svc/gateway/catalog"
	"svc/gateway/config"
	"svc/gateway/federation"
	"svc/gateway/govern"
	"svc/gateway/govern/detectors"
	"svc/gateway/mcp"
	"svc/gateway/multiplex"
	"svc/gateway/observer"
	"svc/gateway/origin"
	"svc/gateway/policy"
	"svc/gateway/ratelimit"
	"svc/gateway/refusal"
	"svc/gateway/refused"
	"svc/gateway/report"
	"svc/gateway/requestid"
	"svc/gateway/session"
	"svc/gateway/targets"
	"svc/gateway/telemetry"
	"svc/gateway/toolsearch"
	"svc/gateway/translate"
	"svc/gateway/translate/handover"
	"svc/gateway/transport"
)

// openLimits opens the store of the rate limits. It lasts across reloads, so
// that no bucket is reset. One that does not answer yet is no error: fail_open
// decides until it does.
func (g *Gateway) openLimits(cfg *config.File) error {
	if cfg.RateLimitStore.Type != ratelimit.TypeRedis {
		g.limits = ratelimit.NewMemory(0, g.now())
		return nil
	}
	store, err := ratelimit.NewRedis(cfg.RateLimitStore, g.log)
	if err != nil {
		return err
	}
	g.limits, g.redis = store, store
	g.background.Run(func(ctx context.Context) {
		if err := store.Ping(ctx); err != nil && ctx.Err() == nil {
			g.log.Warn("the rate-limit store does not answer: until it does, fail_open decides",
				"fail_open", cfg.RateLimitStore.FailOpen, "error", err)
		}
	})
	return nil
}

// openState opens what outlives the process: the audit trail and the
// reporter's offset.
func (g *Gateway) openState(cfg *config.File, opts Options) error {
	logOptions := audit.Options{Now: g.now, Logger: g.log, StateDir: cfg.StateDirectory(), OpenFile: opts.openAudit}
	reports := cfg.ControlPlane.Active() && opts.Sink != nil
	if reports {
		logOptions.MaxBacklog = uint64(cfg.ControlPlane.Traces.MaxBacklog)
	}
	var err error
	if g.audit, err = audit.Open(cfg.Audit, logOptions); err != nil {
		return fmt.Errorf("open audit file %s: %w", cfg.Audit.Path, err)
	}
	g.refused = refused.New(refused.Options{Write: g.audit.WriteRefused, Lost: g.audit.CountLost, Now: g.now, Logger: g.log})
	if !reports {
		return nil
	}
	g.reporter, err = report.New(cfg.ControlPlane, report.Options{
		AuditPath: cfg.Audit.Path, StateDir: cfg.StateDirectory(),
		Sink: opts.Sink, Status: opts.SinkStatus, Reported: g.audit.SetReported, Logger: g.log,
	})
	if err != nil {
		return fmt.Errorf("reporter: %w", err)
	}
	if opts.Heads == nil {
		return nil
	}
	g.heads, err = report.NewHeadReporter(report.HeadOptions{
		Gateway: cfg.ControlPlane.Gateway, Sink: opts.Heads, Logger: g.log, Log: g.audit,
	})
	return err
}

// openSessions opens the memory of the sessions that the gateway opens for clients.
func (g *Gateway) openSessions(cfg *config.File) error {
	sealer, err := session.NewSealer(g.sessionKey)
	if err != nil {
		return err
	}
	state := multiplex.StateOptions{
		Dir: cfg.StateDirectory(), MaxTasks: cfg.TaskAffinity.MaxEntries, TaskTTL: cfg.TaskAffinity.TTL, Now: g.now,
	}
	if g.redis != nil { // replicas share sessions where they share their rate limits
		state.Replicas = &multiplex.Replicas{Sessions: g.redis.Records(), Tasks: g.redis}
	}
	g.sessions = multiplex.Open(multiplex.Options{
		Upstreams: g.targets, Default: g.defaultUpstream, Background: g.background, Version: g.version,
		Sealer: sealer, Logger: g.log, Joined: g.merged.Attach,
	}, state)
	return nil
}

// warn says at the start what an operator may not have meant.
func (g *Gateway) warn(cfg *config.File) {
	if host, _, err := net.SplitHostPort(cfg.Listen); err == nil && !cfg.Auth.Enabled && !origin.IsLoopback(host) {
		g.log.Warn("AUTHENTICATION IS OFF and the gateway listens beyond loopback: anyone who reaches it may call every tool that policy allows",
			"listen", cfg.Listen, "fix", "set auth.enabled: true and list keys, or listen on 127.0.0.1")
	}
}

// openSearch makes the tool search where the file asks for it. Passing lists
// through needs no index, so none is built.
func (g *Gateway) openSearch(cfg *config.File) {
	c := &cfg.ToolSearch
	if !c.Enabled || c.Mode != config.ToolSearchSynthesize {
		return
	}
	var sources []toolsearch.Source
	for _, name := range g.router.Upstreams() { // no other upstream's tools can be called
		sources = append(sources, toolsearch.Source{Name: name, Transport: g.targets[name].Direct})
	}
	g.search = &toolsearch.Service{MaxResults: c.MaxResults, Refresher: toolsearch.New(toolsearch.Options{
		Sources: sources, Route: g.router.Match, Reserved: toolsearch.Name,
		Interval: c.RefreshInterval, Version: g.version, Logger: g.log,
		State: filepath.Join(cfg.StateDirectory(), "tool-definitions.json"), Changed: g.toolChanged,
	})}
}

// openObserver opens telemetry. What the parts say of themselves is read at a scrape,
// when all of them are open.
func (g *Gateway) openObserver(cfg *config.File) (err error) {
	g.observer, err = observer.Open(&cfg.Telemetry, observer.Options{
		Version: g.version, Logger: g.log, Ready: g.health.ServeReason,
		State: func() telemetry.State {
			l := g.live.Load()
			parts := observer.Parts{
				Health: g.health, Verifier: g.verifier, Audit: g.audit, Merged: &g.merged, Sessions: g.sessions, Upstreams: g.targets,
				Limits: g.limits, Redis: g.redis, Guards: l.verdict.Guards, Callers: l.callers, Reporter: g.reporter,
				Governance: g.governance, Search: g.search, Federation: g.federation, Tracer: g.observer.Tracer,
			}
			return parts.State()
		},
	})
	if g.observer.Metrics != nil {
		g.callouts = g.observer.Metrics
	}
	return err
}

// openFederation makes the upstream that stands for all others the default one, where
// the file asks for it.
func (g *Gateway) openFederation(cfg *config.File) (err error) {
	if !cfg.Federation.Enabled {
		return nil
	}
	opts := federation.Options{
		Config: cfg.Federation, Fallback: cfg.DefaultUpstream, StateDir: cfg.StateDirectory(), Key: g.sessionKey,
		Version: g.version, Logger: g.log, Now: g.now, May: g.mayAsk,
	}
	for i := range cfg.Upstreams {
		t := g.targets[cfg.Upstreams[i].Name]
		opts.Upstreams = append(opts.Upstreams, federation.Upstream{Config: &cfg.Upstreams[i], Transport: t.Direct, Announcing: t.Transport})
	}
	if g.federation, err = federation.New(opts); err != nil {
		return fmt.Errorf("federation: %w", err)
	}
	g.defaultUpstream = federation.Name
	g.targets[federation.Name] = &transport.Upstream{Name: federation.Name, Transport: g.federation, Timeout: cfg.Federation.ListTimeout}
	return nil
}

// mayAsk reports whether the rules and policies of this moment let a client ask for an
// item of a list.
func (g *Gateway) mayAsk(c *transport.Caller, kind catalog.Kind, visible string) bool {
	l := g.live.Load()
	if !l.verdict.FilterLists || c == nil {
		return true
	}
	if kind != catalog.Tool {
		visible = ""
	}
	return l.verdict.MayAsk(c.Principal, g.policiesOf(report.AgentName(l.cfg.ControlPlane.AgentOf(c.Principal.Value))), mcp.MethodOf(kind.Method()).Element, visible)
}

// policiesOf returns the policies of an agent as they are now; nil while none are
// known.
func (g *Gateway) policiesOf(agent string) *govern.Set {
	if g.governance == nil {
		return nil
	}
	if bundle := g.governance.Bundle(); bundle != nil {
		return bundle.For(agent)
	}
	return nil
}

// warnSearch says at the start that rules keep the search tool from everybody who
// comes without claims: default deny needs a rule for it.
func (g *Gateway) warnSearch(l *live) {
	q := policy.Request{Direction: policy.ClientToServer, Method: mcp.MethodToolsCall, Tool: toolsearch.Name, HasTool: true}
	if g.search != nil && l.rules.Decide(&q).Action == policy.Deny {
		g.log.Warn("the rules deny the search tool to callers without claims: tools/list is empty for them",
			"fix", "add a rule with action: allow and when: {tool_name: "+toolsearch.Name+"}")
	}
}

// toolChanged leaves a line in the audit file: a tool that was looked at when it
// was approved may have become another one.
func (g *Gateway) toolChanged(upstream, tool string) {
	now := g.now()
	rec := audit.Record{
		Kind: audit.KindEvent, Time: now, RequestID: requestid.New(now), Action: audit.ActionAllow,
		ErrorKind: refusal.ToolChanged.Kind, Upstream: upstream, Tool: tool,
	}
	if err := g.audit.Write(context.Background(), &rec); err != nil {
		g.log.Error("audit line of a changed tool was not written", "upstream", upstream, "tool", tool, "error", err)
	}
}

// openGovernance opens the policies of the control plane, where they are asked
// for.
func (g *Gateway) openGovernance(cfg *config.File, opts Options) (err error) {
	c := &cfg.ControlPlane
	if !c.Governance.Enabled || opts.Governance == nil {
		return nil
	}
	g.governance, err = govern.Open(govern.Options{
		Source: opts.Governance, Status: opts.SinkStatus, Origin: c.URL, StateDir: cfg.StateDirectory(),
		Interval: c.Governance.RefreshInterval, Timeout: c.Traces.Timeout,
		Detectors: detectors.Built{}, Logger: g.log, Now: g.now,
	})
	return err
}

// openUpstreams makes what the configured upstreams are reached by.
func (g *Gateway) openUpstreams(cfg *config.File) (err error) {
	if g.sessionKey, err = session.LoadKey(cfg.Sessions.KeyFile, cfg.StateDirectory()); err != nil {
		return err
	}
	if g.targets, err = targets.Open(cfg, targets.Options{Version: g.version, Logger: g.log, Now: g.now, Changed: func(name string) { g.federation.Changed(name) }}); err != nil {
		return err
	}
	g.upstreams, err = translate.Open(cfg.Upstreams, g.targets, translate.Options{
		Key: g.sessionKey, Version: g.version, Background: g.background, Logger: g.log, Now: g.now,
		Level: func(ctx context.Context, id session.ID) []byte { return g.sessions.State.Settings.Level(ctx, id) },
	}, func() (handover.Store, bool) { return g.redis.Mailboxes(), g.redis != nil })
	return err
}
