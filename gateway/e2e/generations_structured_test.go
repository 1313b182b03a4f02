package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// structuredContent that is no object is taken off for clients of 2025, whose SDKs reject the answer,
// and stays as text: of a server of 2026-07-28, and with federation of a server with sessions. The
// type of an outputSchema in a translated list likewise. Clients of 2026-07-28 get it as it is.
func TestStructuredContentThatIsNoObject(t *testing.T) {
	t.Parallel()
	const list = `{"tools":[{"name":"up_sum","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}},{"name":"up_odd","inputSchema":7}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
	for _, tt := range []struct{ name, result, want string }{
		{"an array", `{"content":[],"structuredContent":[1, 2]}`, `{"content":[{"type":"text","text":"[1,2]"}]}`},
		{"a text", `{"structuredContent":"a\u0041","isError":false}`, `{"isError":false,"content":[{"type":"text","text":"\"a\\u0041\""}]}`},
		{"that is in content", `{"structuredContent":[ 1,2 ],"content":[{"type":"text","text":"[1, 2]"}]}`, `{"content":[{"type":"text","text":"[1, 2]"}]}`},
		{"beside other content", `{"content":[{"type":"text","text":"three"}],"structuredContent":3}`, `{"content":[{"type":"text","text":"three"},{"type":"text","text":"3"}]}`},
		{"null", `{"content":[],"structuredContent":null}`, `{"content":[]}`},
		{"an object", `{"content":[],"structuredContent":{"a":[1]}}`, `{"content":[],"structuredContent":{"a":[1]}}`},
	} {
		for _, media := range medias {
			for how, stateless := range map[string]bool{"translated": true, "translated, federation": true, "federation": false} {
				t.Run(tt.name+", "+how+", "+media, func(t *testing.T) {
					up := newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
						switch {
						case strings.Contains(body, `"tools/list"`):
							answerAs("application/json", list)(w, body, r)
						case strings.Contains(body, `"tools/call"`):
							answerAs(media, strings.Replace(tt.result, "{", map[bool]string{true: `{"resultType":"complete",`, false: "{"}[stateless], 1))(w, body, r)
						case strings.Contains(body, `"server/discover"`) && stateless:
							answerAs("application/json", `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)(w, body, r)
						case strings.Contains(body, `"initialize"`):
							answerAs("application/json", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)(w, body, r)
						default:
							w.WriteHeader(http.StatusAccepted)
							io.WriteString(w, "")
						}
					})
					text := fmt.Sprintf("upstreams:\n  - {name: up, url: %s, protocol: %s}\npolicy: {default_action: allow}\n", up.URL, map[bool]string{true: "2026-07-28", false: "2025-11-25"}[stateless])
					if strings.Contains(how, "federation") {
						text = "federation: {enabled: true}\n" + text
					} else {
						text = "default_upstream: up\nroutes:\n  - {match: {tool_name: \"*\"}, upstream: up}\n" + text
					}
					r := newRig(t, text)
					opened := r.post(strings.Replace(initialize, "2025-06-18", "2025-11-25", 1))
					session := []string{"Mcp-Session-Id", opened.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
					got := r.post(call("7", "up_sum"), session...)
					if want := `"result":` + tt.want + "}"; got.status != 200 || !strings.HasSuffix(got.message(), want) {
						t.Errorf("got %d %s, want %s", got.status, got.body, want)
					}
					got = r.post(`{"jsonrpc":"2.0","id":8,"method":"tools/list"}`, session...)
					if got.status != 200 || strings.Contains(got.body, "outputSchema") || !strings.Contains(got.body, "up_sum") {
						t.Errorf("the list: %d %s", got.status, got.body)
					}
					if stateless {
						got = r.post(modern("9", "tools/call", `"name":"up_sum"`), append(modernHeaders("tools/call"), "Mcp-Name", "up_sum")...)
						if _, content, _ := strings.Cut(tt.result, "{"); got.status != 200 || !strings.Contains(got.body, content) {
							t.Errorf("a client of 2026-07-28: %d %s, want %s", got.status, got.body, content)
						}
					}
				})
			}
		}
	}
}
