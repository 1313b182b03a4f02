package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkFederatedCall is one small tools/call through the handler, to one upstream that sends
// canned responses: by a route, and with federation by the owner of its prefix, which is removed
// from the name, at /mcp and at a view. Compare the results within one run (-count 30).
func BenchmarkFederatedCall(b *testing.B) {
	upstream := cannedUpstream(b)
	for _, bb := range []struct{ name, text, tool, path string }{
		{"routed", basic(upstream), "safe", "/mcp"},
		{"federated", federatedOf(upstream), "u_safe", "/mcp"},
		{"view", federatedOf(upstream) + "views: [{name: few, upstreams: [main], tools: [\"u_*\"]}]\n", "u_safe", "/mcp/v/few"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			r := newRig(b, bb.text)
			body := []byte(call("1", bb.tool))
			reader, w := bytes.NewReader(body), httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodPost, bb.path, nil)
			req.Host, req.RemoteAddr = "127.0.0.1:8090", "127.0.0.1:5000"
			req.Header.Set("Authorization", "Bearer "+r.key)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			b.ReportAllocs()
			for b.Loop() {
				reader.Reset(body)
				req.Body, req.ContentLength = io.NopCloser(reader), int64(len(body))
				w.Body.Reset()
				clear(w.Header())
				w.Code = 0
				r.gateway.ServeHTTP(w, req)
				if w.Code != http.StatusOK && w.Code != 0 {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}

// federatedOf returns the configuration of [basic] with federation: the upstream's tools have
// the prefix u_.
func federatedOf(upstream string) string {
	text := basic(upstream) + "federation: {enabled: true}\n"
	text = strings.Replace(text, "default_upstream: main\n", "", 1)
	text = strings.Replace(text, "routes:\n  - match: {tool_name: \"*\"}\n    upstream: main\n", "", 1)
	text = strings.Replace(text, "  - name: main\n", "  - name: main\n    prefix: u_\n", 1)
	return strings.Replace(text, "[safe, slow]", "[u_safe, slow]", 1)
}
