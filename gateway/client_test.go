package gateway

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

// The clientInfo of a client is in each audit line of its session, also after a restart of the
// gateway, and in the lines of requests without a session. As a label it requires authentication.
func TestClientsAreNamed(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		var m mcp.Message
		_ = mcp.Scan([]byte(body), &m)
		w.Header().Set("Content-Type", "application/json")
		if m.Method == mcp.MethodInitialize {
			w.Header().Set(mcp.HeaderSession, "of-the-upstream")
		}
		io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{}}`)
	})
	r := newRig(t, basic(up.URL))
	opened := r.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"claude-code","version":"2.1\n","title":"x"}}}`)
	session := opened.header.Get(mcp.HeaderSession)
	if opened.status != 200 || session == "" {
		t.Fatalf("%d %s", opened.status, opened.body)
	}
	r.post(call("2", "safe"), mcp.HeaderSession, session)
	r.post(call("3", "danger"), mcp.HeaderSession, session)
	r.post(call("4", "safe"))
	modern := strings.Replace(call("5", "safe"), `"params":{`, `"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"cursor","version":"9"},"io.modelcontextprotocol/clientCapabilities":{}},`, 1)
	if got := r.post(modern, append(modernHeaders("tools/call"), "Mcp-Name", "safe")...); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	claude := map[string]any{"name": "claude-code", "version": "2.1\n"}
	for i, want := range []any{claude, claude, claude, nil, map[string]any{"name": "cursor", "version": "9"}} {
		if got := r.lines(5)[i]["client"]; !reflect.DeepEqual(got, want) {
			t.Errorf("line %d: %v, want %v", i, got, want)
		}
	}
}
