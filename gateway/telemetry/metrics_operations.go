package telemetry

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Operation is the label set of the metrics that the OpenTelemetry semantic conventions define
// for MCP: mcp.server.operation.duration and mcp.client.operation.duration. Each text is one of
// a fixed set or from the configuration. The names of tools and prompts, which the conventions
// have as well, are left out: they are texts of messages, whose number is not bounded.
type Operation struct {
	// Method is the JSON-RPC method, or _OTHER.
	Method string
	// Version is the protocol revision; may be empty.
	Version string
	// ErrorType is the error.type of the request, UpstreamErrorType that of the upstream's
	// part; empty without an error.
	ErrorType, UpstreamErrorType string
	// Network is tcp or pipe: how the upstream is reached; empty if none was contacted.
	Network string
	// Host and Port are from the upstream's URL; empty for a program.
	Host string
	Port int
}

// operations observes operations. It is safe for concurrent use.
type operations struct {
	server, client *prometheus.HistogramVec
	// series maps label sets to their histograms, so that observing takes no lock.
	series atomic.Pointer[map[Operation]operation]
	mu     sync.Mutex // held by goroutines that add a label set
}

type operation struct{ server, client prometheus.Observer }

// init creates and registers the metrics, with the buckets that the conventions recommend.
func (o *operations) init(registry *prometheus.Registry) {
	buckets := []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300}
	o.server = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mcp_server_operation_duration_seconds", Buckets: buckets,
		Help: "mcp.server.operation.duration of the OpenTelemetry conventions: from the arrival of a client's request or notification to the end of the answer.",
	}, []string{"mcp_method_name", "mcp_protocol_version", "error_type", "network_transport"})
	o.client = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "mcp_client_operation_duration_seconds", Buckets: buckets,
		Help: "mcp.client.operation.duration of the OpenTelemetry conventions: from asking an upstream to the end of its answer.",
	}, []string{"mcp_method_name", "mcp_protocol_version", "error_type", "network_transport", "server_address", "server_port"})
	o.series.Store(&map[Operation]operation{})
	registry.MustRegister(o.server, o.client)
}

// observe counts an operation; upstream is 0 if no upstream was contacted.
func (o *operations) observe(op *Operation, took, upstream time.Duration) {
	s, ok := (*o.series.Load())[*op]
	if !ok {
		s = o.add(*op)
	}
	s.server.Observe(took.Seconds())
	if upstream > 0 && s.client != nil {
		s.client.Observe(upstream.Seconds())
	}
}

func (o *operations) add(op Operation) operation {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := *o.series.Load()
	if s, ok := known[op]; ok {
		return s
	}
	s := operation{server: o.server.WithLabelValues(op.Method, op.Version, op.ErrorType, "tcp")}
	if op.Network != "" {
		port := ""
		if op.Host != "" {
			port = strconv.Itoa(op.Port)
		}
		s.client = o.client.WithLabelValues(op.Method, op.Version, op.UpstreamErrorType, op.Network, op.Host, port)
	}
	next := maps.Clone(known)
	next[op] = s
	o.series.Store(&next)
	return s
}
