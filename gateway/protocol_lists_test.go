package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// newSplitServer is a server of both protocol generations that has another tool in each: old in
// sessions, new in 2026-07-28.
func newSplitServer(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		tool := "old"
		if r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
			tool = "new"
		}
		result := map[string]string{
			"server/discover": `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}`,
			"initialize":      `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`,
			"tools/list":      `{"resultType":"complete","ttlMs":1000,"cacheScope":"public","tools":[{"name":"` + tool + `","description":"a tool","inputSchema":{"type":"object"}}]}`,
			"tools/call":      `{"resultType":"complete","content":[]}`,
		}[m.Method]
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(s.Close)
	return s
}

// The tool search and the pins read an upstream in the revision of its configuration, the one in
// which its tools are called.
func TestListsAreReadInTheConfiguredRevision(t *testing.T) {
	for protocol, tool := range map[string]string{"2025-11-25": "old", "2026-07-28": "new"} {
		t.Run(protocol, func(t *testing.T) {
			text := "default_upstream: one\nupstreams:\n  - {name: one, url: " + newSplitServer(t).URL + ", protocol: " + protocol + ", pin_tools: block}\n" +
				"routes: [{match: {tool_name: \"*\"}, upstream: one}]\n" + allowEverything
			if got := newRig(t, text).post(call("1", tool)); got.status != http.StatusOK {
				t.Errorf("pins: %d %s", got.status, got.body)
			}
			r := newRig(t, "tool_search: {enabled: true, mode: synthesize}\n"+text)
			eventually(t, "the search does not find the tool", func() bool { return slices.Equal(r.ask("tool"), []string{"one/" + tool}) })
		})
	}
}
