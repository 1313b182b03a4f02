package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"svc/gateway/config"
	"svc/gateway/telemetry"
	"svc/gateway/upstream"
)

// observer is the gateway's telemetry: spans of two pipelines and metrics on a
// listener of their own. What is switched off is nil, and costs nothing.
type observer struct {
	tracer   *telemetry.Tracer
	metrics  *telemetry.Metrics
	listener net.Listener // of the metrics
	// ready answers /readyz there.
	ready http.HandlerFunc
}

// pipelines are the sections of the pipelines by their names.
func pipelines(c *config.Telemetry) map[string]*config.Pipeline {
	return map[string]*config.Pipeline{"customer": &c.Customer, "operator": &c.Operator}
}

// openObserver makes what the telemetry section asks for. A metrics address that
// cannot be bound is an error.
func (g *Gateway) openObserver(cfg *config.File) (err error) {
	var on []telemetry.Config
	for name, p := range pipelines(&cfg.Telemetry) {
		if p.Enabled {
			on = append(on, telemetry.Config{
				Name: name, Endpoint: p.Endpoint, Headers: p.Headers, ServiceName: p.ServiceName,
				ResourceAttrs: p.ResourceAttrs, SampleRatio: p.SampleRatio, Gzip: p.Compression == config.CompressionGzip,
			})
		}
	}
	if len(on) > 0 {
		if g.observer.tracer, err = telemetry.New(on, telemetry.Options{Version: g.version, Logger: g.log}); err != nil {
			return err
		}
	}
	if cfg.Telemetry.Metrics.Listen == "" {
		return nil
	}
	g.observer.ready = g.serveReason
	if g.observer.listener, err = net.Listen("tcp", cfg.Telemetry.Metrics.Listen); err != nil {
		return fmt.Errorf("telemetry.metrics.listen: %w", err)
	}
	g.observer.metrics = telemetry.NewMetrics(g.version, g.state)
	g.callouts = g.observer.metrics
	return nil
}

// run exports spans and serves metrics until ctx ends.
func (o *observer) run(ctx context.Context, log *slog.Logger) error {
	var wg sync.WaitGroup
	var failed error
	if o.tracer != nil {
		wg.Go(func() { o.tracer.Run(ctx) })
	}
	if o.metrics != nil {
		wg.Go(func() { failed = o.serveMetrics(ctx, log) })
	}
	wg.Wait()
	return failed
}

// metricsFarewell bounds how long a scrape may hold up the end.
const metricsFarewell = time.Second

func (o *observer) serveMetrics(ctx context.Context, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.metrics.Handler())
	mux.HandleFunc("GET /readyz", o.ready)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(o.listener) }()
	log.Info("metrics are served", "address", o.listener.Addr().String(), "path", "/metrics")
	select {
	case err := <-ended:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), metricsFarewell)
	defer cancel()
	if server.Shutdown(last) != nil {
		server.Close()
	}
	<-ended
	return nil
}

// close gives the metrics' address back, also where run never ran.
func (o *observer) close() error {
	if o.listener == nil {
		return nil
	}
	if err := o.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// adopt takes over what a reload may change: the sample ratios.
func (o *observer) adopt(cfg *config.File) {
	if o.tracer == nil {
		return
	}
	for name, p := range pipelines(&cfg.Telemetry) {
		o.tracer.SetSampleRatio(name, p.SampleRatio)
	}
}

// reloaded counts a reload.
func (o *observer) reloaded(err error) {
	if o.metrics != nil {
		o.metrics.Reloaded(err == nil)
	}
}

// state is what the gateway's parts say of themselves at a scrape.
func (g *Gateway) state() telemetry.State {
	keys := g.verifier.Stats()
	l := g.live.Load()
	s := telemetry.State{
		Ready:          g.notReady() == "",
		LicenseDays:    daysLeft(g.license.Status(g.now()), g.now()),
		RestartPending: len(*g.restartPending.Load()),
		MergedStreams:  g.merged.Len(),
		AuditWritable:  g.audit.Ready() == nil, AuditLost: g.audit.Lost(),
		AuditDropped: g.audit.DroppedRecords(), AuditQueued: g.audit.QueuedRecords(),
		KeysComputed: keys.Computed, KeysRemembered: keys.Remembered, KeysBusy: keys.Busy,
		BreakersOpen: l.verdict.Guards.Breakers(),
		Store:        g.storeState(),
		Issuer:       l.issuerState(),
	}
	type counted interface{ Len() int }
	if m, ok := g.limits.(counted); ok {
		s.Buckets = m.Len()
	}
	if m, ok := g.sessions.State.Upstream.(counted); ok {
		s.Sessions = m.Len()
	}
	if g.reporter != nil {
		r := g.reporter.Stats()
		s.Reporter = &telemetry.ReporterState{Posted: r.Posted, Duplicates: r.Duplicates, Failures: r.Failures,
			Quarantined: r.Quarantined, Dropped: r.Dropped, Failing: r.Failing != ""}
	}
	if g.governance != nil {
		b := g.governance.Stats()
		s.Governance = &telemetry.GovernanceState{Known: b.Known, Policies: b.Policies, Fetched: b.Fetched,
			Failures: b.Failures, Rejected: b.Rejected, Failing: b.Failing != ""}
	}
	for name, t := range g.targets {
		if pooled, ok := t.Transport.(interface{ Stats() upstream.Stats }); ok {
			c := pooled.Stats()
			s.Upstreams = append(s.Upstreams, telemetry.UpstreamState{Name: name, Open: c.Open, Idle: c.Idle, Waiting: c.Waiting, Dials: c.Dials, InFlight: c.InFlight, BreakerOpen: c.BreakerOpen,
				Processes: c.Processes, ProcessStarts: c.ProcessStarts, ProcessExits: c.ProcessExits})
		}
	}
	for _, u := range g.search.Stats() {
		s.ToolLists = append(s.ToolLists, telemetry.ToolListState{Upstream: u.Upstream, Tools: u.Tools, Failures: u.Failures, Changed: u.Changed, BackingOff: u.BackingOff})
	}
	for _, l := range g.federation.Stats() {
		s.Federation = append(s.Federation, telemetry.FederationState(l))
	}
	if g.observer.tracer != nil {
		s.Pipelines = g.observer.tracer.Stats()
	}
	return s
}

// storeState is that of a shared rate-limit store, nil where buckets are in
// memory.
func (g *Gateway) storeState() *telemetry.StoreState {
	if g.redis == nil {
		return nil
	}
	s := g.redis.Stats()
	return &telemetry.StoreState{Allowed: s.Allowed, Refused: s.Refused, Failed: s.Failed, ShortCircuited: s.ShortCircuited, Failing: s.Failing}
}

// issuerState is what is known of the token issuer's keys, nil where tokens are
// not accepted.
func (l *live) issuerState() *telemetry.IssuerState {
	s, ok := l.callers.TokenStats()
	if !ok {
		return nil
	}
	return &telemetry.IssuerState{Keys: s.Keys, Fetched: s.Fetched, Fetches: s.Fetches, Failing: s.Failing, Signatures: s.Signatures}
}
