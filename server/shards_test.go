package server

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"svc/store"
)

// sharded is a store of which one shard is away.
type sharded struct{ store.Opened }

func (sharded) Shards() map[string]bool { return map[string]bool{"one:9000": true, "two:9000": false} }

// TestShardMetric: each shard of ClickHouse has a metric, which is 0 while the shard is away.
func TestShardMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(shardsUp{prometheus.NewDesc("svc_trace_store_shard_up", "h", []string{"shard"}, nil), []store.Opened{sharded{}}})
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`svc_trace_store_shard_up{shard="one:9000"} 1`, `svc_trace_store_shard_up{shard="two:9000"} 0`} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("no line %s in\n%s", line, w.Body)
		}
	}
}
