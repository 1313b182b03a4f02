package e2e

import (
	"strings"
	"testing"
)

// TestADroppedParameterHeaderLeavesAReason: an Mcp-Param header with a reversible token that is not
// in its argument does not reach the upstream; the log has its name and why, once for an upstream and
// a reason, and a counter each of them. Neither has its value.
func TestADroppedParameterHeaderLeavesAReason(t *testing.T) {
	files := filesServer(t, "nora@fjord.example")
	g := &governor{}
	g.give(responsePII("redact", "token", "EMAIL"), requestPII("warn", "", "CREDIT_CARD"))
	r := governedRig(t, tokensConfig(files.URL, newUpstream(t, echo).URL, "")+"telemetry: {metrics: {listen: '127.0.0.1:0'}}\n", g)
	token := tokenShape.FindString(r.post(toolCallOf("read_file", `{}`)).body)
	for range 3 {
		a := r.post(toolCallOf("write_file", `{"content":"x"}`), "Mcp-Param-Content", "x", "Mcp-Param-To", token)
		seen := files.seen()
		if h := seen[len(seen)-1].header; a.status != 200 || h.Get("Mcp-Param-To") != "" || h.Get("Mcp-Param-Content") != "x" {
			t.Fatalf("%d %s: the upstream received %v", a.status, a.body, h)
		}
	}
	r.post(toolCallOf("write_file", `{"content":"x"}`), "Mcp-Param-Other", "secret-value")
	text := r.metrics()
	for _, want := range []string{`svc_gateway_headers_dropped_total{reason="token"} 3`, `svc_gateway_headers_dropped_total{reason="mismatch"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	eventually(t, "the log has both reasons", func() bool { return strings.Count(r.logs.String(), "header field removed") == 2 })
	log := r.logs.String()
	if !strings.Contains(log, "Mcp-Param-To: it has a token of a redacted value") || !strings.Contains(log, "Mcp-Param-Other: it does not have the value of its argument") ||
		strings.Contains(log, token) || strings.Contains(log, "secret-value") {
		t.Errorf("log: %s", log)
	}
}
