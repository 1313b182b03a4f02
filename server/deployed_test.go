package server

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every metric and route that deploy/ refers to exists.
func TestDeployedMetricsExist(t *testing.T) {
	r := newRig(t)
	req := httptest.NewRequest("GET", "/api/agents", nil)
	req.Header.Set("Authorization", "Bearer "+r.admin)
	r.srv.ServeHTTP(httptest.NewRecorder(), req)
	w := httptest.NewRecorder()
	r.srv.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	known := map[string]bool{"svc_trace_store_shard_up": true} // with shards only: TestShardMetric
	for _, name := range regexp.MustCompile(`(?m)^[a-z_]+`).FindAllString(w.Body.String(), -1) {
		known[name] = true
	}
	paths := map[string]bool{}
	for _, rt := range routes() {
		paths[rt.path] = true
	}
	for _, file := range []string{"grafana/control-plane.json", "prometheus/control-plane.rules.yaml"} {
		data, err := os.ReadFile(filepath.Join("..", "deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b(svc|go|process)_[a-z_]+\b`).FindAllString(string(data), -1)
		if len(names) < 10 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%s uses the metric %s, which is not exposed", file, name)
			}
		}
		for _, m := range regexp.MustCompile(`route="([^"]*)"`).FindAllStringSubmatch(string(data), -1) {
			if !paths[m[1]] {
				t.Errorf("%s uses the route %s, which does not exist", file, m[1])
			}
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(data) {
			t.Errorf("%s is not JSON", file)
		}
	}
}
