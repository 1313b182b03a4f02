package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc/gateway"
	"svc/store/api"
)

// BenchmarkSmallCall is one small tools/call through the handler, without an HTTP server: the
// cost of the gateway itself, with its upstream client. The upstream is a goroutine that sends
// canned responses.
func BenchmarkSmallCall(b *testing.B) { benchmarkCall(b, "", call("1", "safe"), nil) }

// BenchmarkSmallCallObserved is BenchmarkSmallCall with metrics, and with spans that are encoded
// and discarded.
func BenchmarkSmallCallObserved(b *testing.B) {
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer sink.Close()
	benchmarkCall(b, "telemetry: {metrics: {listen: '127.0.0.1:0'}, customer: {enabled: true, endpoint: '"+sink.URL+"'}}\n", call("1", "safe"), nil)
}

// BenchmarkSmallCallLabeled is a small call without labels, and one that is judged by the labels of
// its caller and sets one.
func BenchmarkSmallCallLabeled(b *testing.B) {
	for _, row := range []struct{ name, rules, labels string }{
		{"unused", "", ""},
		{"used", "    - {id: both-read, action: deny, when: {tool_name: '*', labels_all: [untrusted, private]}}\n",
			"data_flow: {labels: [{name: untrusted, tool_glob: '*_call'}, {name: untrusted, tool_prefix: sa}, {name: private, tool_prefix: files_}]}\n"},
	} {
		b.Run(row.name, func(b *testing.B) {
			config := strings.Replace(basic(cannedUpstream(b)), "  rules:\n", "  rules:\n"+row.rules, 1)
			_, once := prepareCallTo(b, config+row.labels, call("1", "safe"), nil)
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
}

// BenchmarkSmallCallWithArguments is a small call with three arguments: without rules on
// arguments, with a rule on the arguments of another tool, and with rules that match two of the
// arguments; then the same with policies of the control plane.
func BenchmarkSmallCallWithArguments(b *testing.B) {
	const message = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","arguments":{"path":"/srv/data/a.csv","limit":50,"columns":["id","name"]}}}`
	rule := func(tool string) string {
		return "    - {id: keys, action: deny, when: {tool_name: " + tool + ", arguments: {/path: {path_within: /srv/data/keys}}}}\n" +
			"    - {id: rows, action: deny, when: {tool_name: " + tool + ", arguments: {/limit: {min: 1000}}}}\n"
	}
	policy := func(tool string) []api.GovernancePolicy {
		return []api.GovernancePolicy{
			{Phase: "request", Action: "block", Condition: api.Condition{Type: "tool_arguments", ToolName: tool, Arguments: json.RawMessage(`{"/path":{"path_within":"/srv/data/keys"}}`)}},
			{Phase: "request", Action: "block", Condition: api.Condition{Type: "tool_arguments", ToolName: tool, Arguments: json.RawMessage(`{"/limit":{"min":1000}}`)}},
		}
	}
	for _, row := range []struct{ name, rules string }{{"rules/none", ""}, {"rules/other tool", rule("other")}, {"rules/used", rule("safe")}} {
		b.Run(row.name, func(b *testing.B) {
			config := strings.Replace(basic(cannedUpstream(b)), "  rules:\n", "  rules:\n"+row.rules, 1)
			_, once := prepareCallTo(b, config, message, nil)
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
	for _, row := range []struct {
		name     string
		policies []api.GovernancePolicy
	}{{"policies/none", nil}, {"policies/other tool", policy("other")}, {"policies/used", policy("safe")}} {
		b.Run(row.name, func(b *testing.B) { benchmarkGoverned(b, message, row.policies...) })
	}
}

func benchmarkCall(b *testing.B, more, message string, tune func(*gateway.Options)) {
	_, once := prepareCall(b, more, message, tune)
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}

// prepareCall starts a gateway with additional configuration and returns a function that sends it
// a message through its handler.
func prepareCall(b *testing.B, more, message string, tune func(*gateway.Options)) (r *rig, once func()) {
	b.Helper()
	return prepareCallTo(b, basic(cannedUpstream(b))+more, message, tune)
}

// prepareCallTo is prepareCall with a complete configuration.
func prepareCallTo(b *testing.B, config, message string, tune func(*gateway.Options)) (r *rig, once func()) {
	b.Helper()
	r = newRigWith(b, config, tune)
	body := []byte(message)
	w := httptest.NewRecorder()
	reader := bytes.NewReader(body)
	req := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	req.Host, req.RemoteAddr = "127.0.0.1:8090", "127.0.0.1:5000"
	req.Header.Set("Authorization", "Bearer "+r.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	return r, func() {
		reader.Reset(body)
		req.Body = io.NopCloser(reader)
		req.ContentLength = int64(len(body))
		w.Body.Reset()
		clear(w.Header())
		w.Code = 0
		r.gateway.ServeHTTP(w, req)
		if w.Code != http.StatusOK && w.Code != 0 {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}

// cannedUpstream starts an upstream that sends canned responses and returns its URL.
func cannedUpstream(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go canned(c)
		}
	}()
	return "http://" + ln.Addr().String() + "/mcp"
}

// canned answers every request on the connection. It takes one read for one request.
func canned(c net.Conn) {
	defer c.Close()
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 48\r\n\r\n" +
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	buf := make([]byte, 64<<10)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}
