package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkFederatedCall is one small tools/call through the handler, to one upstream that
// answers canned bytes: by a route, and with federation by the owner of its prefix, which is
// taken off the name, at /mcp and at a view. Compare the two of one run with another (-count 30).
func BenchmarkFederatedCall(b *testing.B) {
	for _, bb := range []struct{ name, more, tool, path string }{
		{"routed", "", "safe", "/mcp"},
		{"federated", "federation: {enabled: true}\n", "u_safe", "/mcp"},
		{"view", "federation: {enabled: true}\nviews: [{name: few, upstreams: [main], tools: [\"u_*\"]}]\n", "u_safe", "/mcp/v/few"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			text := basic(cannedUpstream(b)) + bb.more
			if bb.more != "" {
				text = strings.Replace(text, "default_upstream: main\n", "", 1)
				text = strings.Replace(text, "routes:\n  - match: {tool_name: \"*\"}\n    upstream: main\n", "", 1)
				text = strings.Replace(text, "  - name: main\n", "  - name: main\n    prefix: u_\n", 1)
				text = strings.Replace(text, "[safe, slow]", "[u_safe, slow]", 1)
			}
			r := newRig(b, text)
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
