package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits of the label client: the names of clients are arbitrary. Further names are
// counted as otherClient.
const (
	maxClients  = 50
	otherClient = "other"
)

// clients counts the requests of identified callers by the self-declared names of their
// clients. It is safe for concurrent use.
type clients struct {
	requests *prometheus.CounterVec
	// series maps names and actions to their counters, so that counting takes no lock.
	series atomic.Pointer[map[clientKey]prometheus.Counter]
	mu     sync.Mutex // held by goroutines that add a counter
	names  map[string]bool
}

type clientKey struct{ name, action string }

func newClientCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "svc_gateway_client_requests_total",
		Help: "Requests of identified callers by the name that the client gives itself (50 names, then other) and by action.",
	}, []string{"client", "action"})
}

// count counts a request of a client with a name.
func (c *clients) count(name, action string) {
	if known := c.series.Load(); known != nil {
		if counter, ok := (*known)[clientKey{name, action}]; ok {
			counter.Inc()
			return
		}
	}
	c.add(name, action).Inc()
}

// add returns the counter of a name, or the shared one when the limit of names is
// reached.
func (c *clients) add(name, action string) prometheus.Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.names[name] && len(c.names) >= maxClients {
		return c.requests.WithLabelValues(otherClient, action)
	}
	if c.names == nil {
		c.names = map[string]bool{}
	}
	c.names[name] = true
	counter := c.requests.WithLabelValues(name, action)
	next := map[clientKey]prometheus.Counter{{name, action}: counter}
	if known := c.series.Load(); known != nil {
		maps.Copy(next, *known)
	}
	c.series.Store(&next)
	return counter
}
