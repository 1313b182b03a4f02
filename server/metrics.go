package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"svc/server/background"
	"svc/store"
	"svc/store/api"
)

// metrics are the Prometheus metrics of the control plane, in a registry of
// their own. Labels come from the route table and from documented statuses, so
// their number is bounded; the names of instrumentation scopes, which come from
// requests, are bounded by their number.
type metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	pages       *prometheus.CounterVec
	pageSeconds *prometheus.HistogramVec
	traces      *prometheus.CounterVec
	outcomes    *prometheus.CounterVec
	streams     prometheus.Gauge
	slowStreams prometheus.Counter
	bodies      *prometheus.CounterVec
	dropped     *prometheus.CounterVec
	webhooks    *prometheus.CounterVec
	decisions   *prometheus.CounterVec

	mu     sync.Mutex
	scopes map[string]bool // the values of the label scope; guarded by mu
}

// maxScopes bounds the instrumentation scopes that are counted by name; the others are otherScope.
const (
	maxScopes  = 100
	otherScope = "other"
)

func newMetrics(stores []store.Opened, bodies *bodyMemory, ready func(context.Context) error, jump func() time.Duration, removed func() uint64, open func() int64) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_http_requests_total", Help: "Requests under /api by route, method and status.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "svc_http_request_duration_seconds", Help: "Time to answer requests under /api; streams are left out.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route", "method"}),
		pages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_page_requests_total", Help: "Requests for pages for browsers by route, method and status; the requests of the API that a page makes are counted as well.",
		}, []string{"route", "method", "status"}),
		pageSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "svc_page_request_duration_seconds", Help: "Time to answer requests for pages; streams are left out.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		}, []string{"route", "method"}),
		traces: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_traces_ingested_total", Help: "Traces ingested, by result.",
		}, []string{"outcome"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_traced_requests_total", Help: "Requests of traces that were accepted, by their outcome: success, blocked by a rule, a limit or a policy, or failed with another error.",
		}, []string{"outcome"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "svc_trace_streams", Help: "Open streams of traces.",
		}),
		slowStreams: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "svc_trace_streams_cut_total", Help: "Streams of traces that were ended because their reader was too slow.",
		}),
		bodies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_request_bodies_refused_total", Help: "Requests refused because too many bytes of bodies were in memory, of their tenant or in all.",
		}, []string{"bound"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_otlp_spans_dropped_total", Help: "Spans over OTLP that were accepted and are in no trace, because their tree has no attribute of a call of a model, an agent or a tool, by instrumentation scope (100 names, then other).",
		}, []string{"scope"}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_identity_webhooks_refused_total", Help: "Deliveries of the identity provider that were not accepted, by reason; users whom it revokes keep their access.",
		}, []string{"reason"}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_approval_decisions_total", Help: "Decisions of persons about approvals.",
		}, []string{"decision"}),
		scopes: map[string]bool{},
	}
	info := func(value func(store.Info) int64) func() float64 {
		return func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
			defer cancel()
			var sum float64
			for _, st := range stores {
				if info, err := st.Info(ctx); err == nil {
					sum += float64(value(info))
				}
			}
			return sum
		}
	}
	size := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "svc_store_size_bytes", Help: "Size of the store on disk; 0 where the store does not know it.",
	}, info(func(i store.Info) int64 { return i.SizeBytes }))
	free := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "svc_store_free_bytes", Help: "Bytes of the store's size that removed data has left; later writes use them, 'svc store compact' returns them to the disk.",
	}, info(func(i store.Info) int64 { return i.FreeBytes }))
	disk := prometheus.NewDesc("svc_store_disk_free_bytes", "Free space of the disk that the store is on; absent where the store does not know it.", nil, nil)
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "svc_request_body_bytes", Help: "Bytes of request bodies in memory.",
	}, func() float64 { return float64(bodies.inMemory()) })
	writable := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "svc_store_writable", Help: "1 while the store takes writes, 0 while /readyz is 503; /readyz?verbose on this listener has the reason.",
	}, func() float64 {
		if ready(context.Background()) != nil {
			return 0
		}
		return 1
	})
	clock := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "svc_store_clock_jump_seconds", Help: "How far the clock is ahead of the latest time that the store keeps (negative: behind it), while retention removes data slowly because of that; else 0. The process that does the retention has the value.",
	}, func() float64 {
		if jump == nil {
			return 0
		}
		return jump().Seconds()
	})
	expired := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "svc_retention_removed_traces_total", Help: "Traces that retention removed. The process that does the retention counts them.",
	}, func() float64 {
		if removed == nil {
			return 0
		}
		return float64(removed())
	})
	approvals := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "svc_approvals_open", Help: "Approvals of all tenants that nobody has decided. The process that ends approvals has the value; the others have 0.",
	}, func() float64 {
		if open == nil {
			return 0
		}
		return float64(open())
	})
	shards := prometheus.NewDesc("svc_trace_store_shard_up", "1 while a shard of ClickHouse responds; absent for other stores.", []string{"shard"}, nil)
	m.registry.MustRegister(size, free, diskFree{disk, stores}, shardsUp{shards, stores}, held, writable, clock, expired, approvals, m.decisions, m.requests, m.seconds, m.pages, m.pageSeconds, m.traces, m.outcomes, m.streams, m.slowStreams, m.bodies, m.dropped, m.webhooks,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, outcome := range []string{"accepted", "duplicate", "expired"} {
		m.traces.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"success", "blocked", "failed"} {
		m.outcomes.WithLabelValues(outcome)
	}
	for _, decision := range api.ApprovalDecisions {
		m.decisions.WithLabelValues(decision)
	}
	m.dropped.WithLabelValues(otherScope)
	for why := range refusalCauses {
		m.webhooks.WithLabelValues(why)
	}
	for _, bound := range []string{boundTenant, boundAll} {
		m.bodies.WithLabelValues(bound)
	}
	return m
}

// diskFree collects the free space of the disks of stores that know it.
type diskFree struct {
	desc   *prometheus.Desc
	stores []store.Opened
}

// Describe sends the one description.
func (d diskFree) Describe(ch chan<- *prometheus.Desc) { ch <- d.desc }

// Collect sends the value of the first store that knows it: only one of them has a file of its own.
func (d diskFree) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for _, st := range d.stores {
		if info, err := st.Info(ctx); err == nil && info.DiskFreeBytes != nil {
			ch <- prometheus.MustNewConstMetric(d.desc, prometheus.GaugeValue, float64(*info.DiskFreeBytes))
			return
		}
	}
}

// shardsUp collects the state of the shards of a store that has some.
type shardsUp struct {
	desc   *prometheus.Desc
	stores []store.Opened
}

// Describe sends the one description.
func (s shardsUp) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect sends the value of each shard.
func (s shardsUp) Collect(ch chan<- prometheus.Metric) {
	for _, st := range s.stores {
		sharded, ok := st.(interface{ Shards() map[string]bool })
		if !ok {
			continue
		}
		for name, up := range sharded.Shards() {
			value := 0.0
			if up {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, value, name)
		}
	}
}

// ownWindows is the SharedWindows of a process without shared windows.
type ownWindows struct{ SharedWindows }

func (ownWindows) Failing() bool    { return true }
func (ownWindows) Failures() uint64 { return 0 }

// countWindows registers the metrics of the request windows.
func (m *metrics) countWindows(w SharedWindows) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "svc_rate_windows_shared", Help: "1 while all processes share the request windows of tenants, 0 while this process has its own: without --redis-url, or while Redis does not answer.",
	}, func() float64 {
		if w.Failing() {
			return 0
		}
		return 1
	}), prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "svc_rate_window_failures_total", Help: "Requests that Redis did not count because it did not answer; the windows of this process did.",
	}, func() float64 { return float64(w.Failures()) }))
}

// countDeliveries registers the metrics of the messages to webhooks.
func (m *metrics) countDeliveries(of func() background.DeliveryCounts) {
	if of == nil {
		of = func() background.DeliveryCounts { return background.DeliveryCounts{} }
	}
	for result, value := range map[string]func(background.DeliveryCounts) uint64{
		"delivered": func(c background.DeliveryCounts) uint64 { return c.Delivered },
		"retried":   func(c background.DeliveryCounts) uint64 { return c.Retried },
		"failed":    func(c background.DeliveryCounts) uint64 { return c.Failed },
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "svc_webhook_deliveries_total", Help: "Attempts to send a message to a webhook by result: delivered, retried later, or failed for good. The process that sends counts them.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(value(of())) }))
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "svc_webhook_queue", Help: "Messages to webhooks that wait. The process that sends has the value.",
	}, func() float64 { return float64(of().Waiting) }))
}

// The label values for the bounds on bodies in memory.
const (
	boundTenant = "tenant"
	boundAll    = "all"
)

// bodyRefused counts a request that exceeded a bound on bodies in memory.
func (m *metrics) bodyRefused(err error) {
	bound := boundAll
	if errors.Is(err, errTenantBodies) {
		bound = boundTenant
	}
	m.bodies.WithLabelValues(bound).Inc()
}

// droppedSpans counts the spans of one request that are in no trace.
func (m *metrics) droppedSpans(byScope map[string]int) {
	if len(byScope) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for scope, n := range byScope {
		if !m.scopes[scope] && len(m.scopes) >= maxScopes {
			scope = otherScope
		} else {
			m.scopes[scope] = true
		}
		m.dropped.WithLabelValues(scope).Add(float64(n))
	}
}

// ingested counts the traces of one request.
func (m *metrics) ingested(r store.IngestResult) {
	m.traces.WithLabelValues("accepted").Add(float64(r.Accepted))
	m.traces.WithLabelValues("duplicate").Add(float64(r.Duplicates))
	m.traces.WithLabelValues("expired").Add(float64(r.Expired))
	m.outcomes.WithLabelValues("blocked").Add(float64(r.Blocked))
	m.outcomes.WithLabelValues("failed").Add(float64(r.Failed))
	m.outcomes.WithLabelValues("success").Add(float64(r.Accepted - r.Blocked - r.Failed))
}

// served counts a request that has been answered.
func (m *metrics) served(c *call, status int, took time.Duration) {
	route, method := "unmatched", "other"
	if c.route != nil {
		route, method = c.route.path, c.route.method
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	if route != streamPath {
		m.seconds.WithLabelValues(route, method).Observe(took.Seconds())
	}
}

// streamPath is the only route whose requests have no time limit; their
// durations are not observed.
const streamPath = "/api/traces/stream"

// CountPage counts a request for a page for browsers: route is the pattern of its path, empty for none, and took is 0
// for a stream.
func (s *Server) CountPage(route, method string, status int, took time.Duration) {
	if route == "" || route == "/" && status == http.StatusNotFound {
		route = "unmatched"
	}
	if method != http.MethodGet && method != http.MethodHead && method != http.MethodPost {
		method = "other"
	}
	s.metrics.pages.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	if took > 0 {
		s.metrics.pageSeconds.WithLabelValues(route, method).Observe(took.Seconds())
	}
}

// Metrics returns the handler of the metrics, in Prometheus's text format. It
// needs no key and must be served by a separate listener.
func (s *Server) Metrics() http.Handler {
	return promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})
}
