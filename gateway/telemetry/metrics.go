package telemetry

import (
	"maps"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Request is one finished request for the metrics. Rule and Upstream are names of the
// configuration, never text of a message, so that the label sets are bounded; the names of clients are bounded
// by their number.
type Request struct {
	// Action is the decision, as in audit lines.
	Action string
	// Rule is the id of the rule that decided; may be empty.
	Rule string
	// Upstream is the name of the upstream; empty if none was contacted.
	Upstream string
	// Status is the HTTP status of the response.
	Status int
	// Client is the client's self-declared name; it is counted only if Identified is set: its caller presented
	// a valid key or token.
	Client     string
	Identified bool
	// Stream is set for event streams. Their duration depends on the client, so they are not part of the
	// latencies.
	Stream bool
	// Operation is the operation of the semantic conventions for MCP; its Method is empty if no
	// JSON-RPC method was read.
	Operation Operation
	// Duration is the time of the whole request.
	Duration time.Duration
	// Gateway is the time spent in the gateway itself, UpstreamTime the time of the
	// upstream, 0 if none was contacted.
	Gateway, UpstreamTime time.Duration
}

// Metrics counts requests and serves the counts to Prometheus, from its own registry. Its
// methods are safe for concurrent use.
type Metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	gateway   prometheus.Histogram
	upstream  *prometheus.HistogramVec
	guardrail *prometheus.HistogramVec
	reloads   *prometheus.CounterVec
	reloaded  prometheus.Gauge
	observed  *prometheus.CounterVec
	fired     *prometheus.CounterVec
	dropped   *prometheus.CounterVec
	approvals *prometheus.CounterVec
	clients   clients

	operations operations

	// series maps label values to their counters, so that counting takes no lock.
	series atomic.Pointer[map[seriesKey]series]
	mu     sync.Mutex // held by goroutines that add a counter
}

type seriesKey struct {
	action, rule, upstream string
	status                 int
}

type series struct {
	requests prometheus.Counter
	upstream prometheus.Observer
}

// NewMetrics creates the metrics. state is called for each scrape.
func NewMetrics(version string, state func() State) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_gateway_requests_total",
			Help: "Requests by action, deciding rule, upstream and HTTP status.",
		}, []string{"action", "rule", "upstream", "status"}),
		gateway: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "svc_gateway_own_duration_seconds",
			Help:    "Time that the gateway itself took for a request, without the upstream; event streams are left out.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
		}),
		upstream: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "svc_gateway_upstream_duration_seconds",
			Help:    "Time from asking an upstream to the end of its answer; event streams are left out.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"upstream"}),
		guardrail: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "svc_gateway_guardrail_duration_seconds",
			Help:    "Time of guardrail callouts by endpoint and verdict.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"guardrail", "verdict"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_gateway_reloads_total", Help: "Reloads of the configuration by result: ok or failed.",
		}, []string{"result"}),
		reloaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "svc_gateway_reload_success", Help: "1 when the last reload took effect, or none was asked for; 0 when it failed.",
		}),
	}
	m.observed, m.fired = newJudgementCounters()
	m.dropped, m.approvals = newDroppedCounter(), newApprovalCounter()
	m.registry.MustRegister(m.observed, m.fired, m.dropped, m.approvals)
	m.clients.requests = newClientCounter()
	m.registry.MustRegister(m.clients.requests)
	m.operations.init(m.registry)
	m.reloaded.Set(1)
	m.reloads.WithLabelValues("ok")
	m.reloads.WithLabelValues("failed")
	m.series.Store(&map[seriesKey]series{})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "svc_gateway_build_info", Help: "1; the labels say what runs.",
	}, []string{"version", "go"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(m.requests, m.gateway, m.upstream, m.guardrail, m.reloads, m.reloaded, build,
		newStateCollector(state),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Observe counts a request.
func (m *Metrics) Observe(r *Request) {
	s := m.of(seriesKey{r.Action, r.Rule, r.Upstream, knownStatus(r.Status)})
	s.requests.Inc()
	if r.Identified && r.Client != "" {
		m.clients.count(r.Client, r.Action)
	}
	if r.Operation.Method != "" {
		m.operations.observe(&r.Operation, r.Duration, r.UpstreamTime)
	}
	if !r.Stream {
		m.gateway.Observe(r.Gateway.Seconds())
		if r.UpstreamTime > 0 && s.upstream != nil {
			s.upstream.Observe(r.UpstreamTime.Seconds())
		}
	}
}

// Asked counts a guardrail callout for a message: its verdict and its duration. name is a
// name of the configuration, verdict one of a fixed set.
func (m *Metrics) Asked(name, verdict string, took time.Duration) {
	m.guardrail.WithLabelValues(name, verdict).Observe(took.Seconds())
}

// of returns the counters of a label set, and creates new ones.
func (m *Metrics) of(key seriesKey) series {
	if s, ok := (*m.series.Load())[key]; ok {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := *m.series.Load()
	if s, ok := known[key]; ok {
		return s
	}
	status := "other"
	if key.status != 0 {
		status = strconv.Itoa(key.status)
	}
	s := series{requests: m.requests.WithLabelValues(key.action, key.rule, key.upstream, status)}
	if key.upstream != "" {
		s.upstream = m.upstream.WithLabelValues(key.upstream)
	}
	next := maps.Clone(known)
	next[key] = s
	m.series.Store(&next)
	return s
}

// knownStatus returns a registered HTTP status, and 0 for others, because an upstream
// could return hundreds of others.
func knownStatus(status int) int {
	if http.StatusText(status) == "" {
		return 0
	}
	return status
}

// Reloaded counts a reload of the configuration.
func (m *Metrics) Reloaded(ok bool) {
	result, success := "ok", 1.0
	if !ok {
		result, success = "failed", 0
	}
	m.reloads.WithLabelValues(result).Inc()
	m.reloaded.Set(success)
}

// Handler serves /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.InstrumentMetricHandler(m.registry, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	}))
}
