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

	"svc/gateway/accounting"
	"svc/gateway/config"
	"svc/gateway/mcp"
	"svc/gateway/refusal"
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
			s.Upstreams = append(s.Upstreams, telemetry.UpstreamState{Name: name, Open: c.Open, Idle: c.Idle, Waiting: c.Waiting, Dials: c.Dials})
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

// place is where a request stands in its trace, as far as anyone has asked.
type place struct {
	telemetry.Trace
	known      bool
	fromHeader bool   // the caller's position stood in a header
	state      string // the caller's tracestate, where it stood in the message
}

// traced finds the request's place in its trace, once: behind the traceparent of
// the header, or that of params._meta where the header is absent, or at the
// beginning of a new trace. It is for gateways that trace.
func (ex *exchange) traced() *place {
	p := &ex.place
	if p.known {
		return p
	}
	p.known = true
	var parent telemetry.Context
	switch values := ex.r.Header["Traceparent"]; {
	case len(values) == 1:
		parent, p.fromHeader = telemetry.ParseTraceparent(values[0])
	case len(values) == 0 && ex.hasMsg && ex.msg.Kind != mcp.Response && ex.msg.Spans.Meta.Present():
		parent, p.state, _ = telemetry.FromMeta(ex.msg.Spans.Meta.Of(ex.msg.Body))
	}
	p.Trace = ex.g.observer.tracer.Begin(parent)
	return p
}

// traceID is the W3C trace id of the audit line.
func (ex *exchange) traceID() string {
	if ex.g.observer.tracer == nil {
		return traceID(ex.r.Header["Traceparent"])
	}
	return ex.traced().ID.String()
}

// passTrace names the gateway's own span as the parent of what the upstream does,
// in the header, and in the message where that carries the position too: an
// upstream that goes by _meta sees the same parent. Without a pipeline the
// caller's trace context has passed as it came. The tracestate goes along only
// with the position that it belongs to.
func (ex *exchange) passTrace(h *upstream.Header) {
	if ex.g.observer.tracer == nil {
		return
	}
	p := ex.traced()
	var text [64]byte
	h.Set("Traceparent", string(p.Next().AppendTraceparent(text[:0])))
	if ex.hasMsg && ex.msg.Kind != mcp.Response && ex.msg.Spans.Meta.Present() {
		telemetry.MoveMeta(ex.msg.Spans.Meta.Of(ex.msg.Body), p.Next())
	}
	if p.fromHeader {
		return
	}
	h.Del("Tracestate")
	if p.state != "" {
		h.Add("Tracestate", p.state)
	}
}

// observe hands a finished request to spans and metrics. It runs after the
// answer was given, on the request's goroutine, and never waits.
func (ex *exchange) observe() {
	o := &ex.g.observer
	if o.tracer == nil && o.metrics == nil {
		return
	}
	if !ex.audited && !ex.counted { // its answer was cut short by a panic
		ex.describe()
		ex.rec.Duration = ex.g.since(ex.start)
	}
	if ex.rec.ErrorKind == refusal.Audit.Kind && !ex.began {
		ex.rec.Status = refusal.Audit.Status // what was accounted for is not what was answered
	}
	end := ex.start.Add(ex.rec.Duration)
	var provider time.Duration
	if !ex.sentUp.IsZero() {
		provider = max(0, end.Sub(ex.sentUp)-ex.asking.answer-ex.governed.answer-ex.graded)
	}
	if o.metrics != nil {
		ex.count(provider)
	}
	if o.tracer != nil && !ex.counted && ex.traced().Recorded() {
		ex.span(end, provider)
	}
}

// count counts the request.
func (ex *exchange) count(provider time.Duration) {
	r := &ex.rec
	asked := ex.asking.request + ex.asking.answer
	ex.g.observer.metrics.Observe(&telemetry.Request{
		Action: r.Action, Rule: r.RuleID, Upstream: r.Upstream, Status: r.Status, Stream: ex.began,
		Gateway: max(0, r.Duration-provider-asked), UpstreamTime: provider,
	})
	for _, o := range r.Observed {
		ex.g.observer.metrics.Observed(o.RuleID, o.Action)
	}
	for _, p := range r.PoliciesFired {
		ex.g.observer.metrics.PolicyFired(p.Action)
	}
}

// span records the request's spans (gateway specification, Spans).
func (ex *exchange) span(end time.Time, provider time.Duration) {
	r := &ex.rec
	s := telemetry.Span{
		Trace: ex.place.Trace, Start: ex.start, End: end,
		HTTPMethod: ex.r.Method, Method: r.Method, Tool: r.Tool, Version: ex.dialect.Version, Status: r.Status,
		ErrorType: accounting.ErrorType(r), Decision: accounting.Decision(r), RuleID: r.RuleID, Upstream: r.Upstream,
		Principal: r.Principal, OAuthClientName: r.OAuthClientName, TaskHandle: r.TaskHandle,
		GuardrailName: r.GuardrailName, GuardrailVerdict: r.GuardrailVerdict, GuardrailLatency: r.GuardrailLatency,
	}
	// By the monotonic clock, so that no stage stands beyond its request.
	since := func(t time.Time) time.Time { return ex.start.Add(t.Sub(ex.start)) }
	if ex.judging > 0 {
		from := since(ex.judgedFrom)
		judged := from.Add(ex.judging)
		s.AddStage(telemetry.Stage{Name: stagePolicy, Start: from, End: judged})
		if d := ex.asking.request; d > 0 {
			s.AddStage(telemetry.Stage{Name: stageGuardrail, Start: judged, End: judged.Add(d)})
		}
	}
	if d := ex.governed.scan; d > 0 && !ex.governed.scanFrom.IsZero() {
		from := since(ex.governed.scanFrom)
		s.AddStage(telemetry.Stage{Name: stageScan, Start: from, End: from.Add(d)})
	}
	if !ex.sentUp.IsZero() {
		s.AddStage(telemetry.Stage{Name: stageProvider, Start: since(ex.sentUp), End: since(ex.sentUp).Add(provider), Upstream: true})
	}
	if d := ex.asking.answer; d > 0 {
		s.AddStage(telemetry.Stage{Name: stageGuardrail, Start: end.Add(-d), End: end})
	}
	ex.g.observer.tracer.Record(&s)
}
