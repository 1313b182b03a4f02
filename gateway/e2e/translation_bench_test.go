package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkCallBetweenGenerations is one small tools/call through the handler, untranslated and
// translated in both directions. The same server, which reads only the method and the id, answers
// all of them; its cost is part of each result.
func BenchmarkCallBetweenGenerations(b *testing.B) {
	for _, bb := range []struct {
		name, protocol string
		modern         bool
	}{
		{"modern client, modern server", "2026-07-28", true},
		{"modern client, legacy server", "2025-11-25", true},
		{"legacy client, legacy server", "2025-11-25", false},
		{"legacy client, modern server", "2026-07-28", false},
	} {
		b.Run(bb.name, func(b *testing.B) {
			up := httptest.NewServer(http.HandlerFunc(answerAnyGeneration))
			defer up.Close()
			r := newRig(b, strings.Replace(basic(up.URL), "    url: "+up.URL+"\n", "    url: "+up.URL+"\n    protocol: "+bb.protocol+"\n", 1))
			body := call("1", "safe")
			headers := []string{}
			if bb.modern {
				body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"safe","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
				headers = append(modernHeaders("tools/call"), "Mcp-Name", "safe")
			} else {
				got := r.post(initialize)
				if got.status != 200 {
					b.Fatalf("%d %s", got.status, got.body)
				}
				headers = append(headers, "Mcp-Session-Id", got.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18")
			}
			reader := bytes.NewReader(nil)
			w := httptest.NewRecorder()
			req := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			req.Host, req.RemoteAddr = "127.0.0.1:8090", "127.0.0.1:5000"
			req.Header.Set("Authorization", "Bearer "+r.key)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			for i := 0; i+1 < len(headers); i += 2 {
				req.Header.Set(headers[i], headers[i+1])
			}
			b.ReportAllocs()
			for b.Loop() {
				reader.Reset([]byte(body))
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

// answerAnyGeneration answers as a server of either generation.
func answerAnyGeneration(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	result := `{"content":[]}`
	switch {
	case bytes.Contains(body, []byte(`"method":"initialize"`)):
		w.Header().Set("Mcp-Session-Id", "s")
		result = `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
	case bytes.Contains(body, []byte(`"method":"server/discover"`)):
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`
	case bytes.Contains(body, []byte(`"method":"notifications/`)):
		w.WriteHeader(http.StatusAccepted)
		return
	}
	_, rest, _ := bytes.Cut(body, []byte(`"id":`))
	end := bytes.IndexAny(rest, ",}")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, rest[:max(end, 0)], result)
}
