package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestNo404WithAnErrorEndsASessionOfTheGateway: an upstream with or without sessions that answers a
// request with the status 404 and a JSON-RPC error, whichever its code, does not end the session that
// the gateway issued: its clients get the error with 200. Without a session the status stays.
func TestNo404WithAnErrorEndsASessionOfTheGateway(t *testing.T) {
	for _, stateful := range []bool{false, true} {
		up := newUpstream(t, func(w http.ResponseWriter, body string, req *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case strings.Contains(body, `"initialize"`):
				if stateful {
					w.Header().Set("Mcp-Session-Id", "s1")
				}
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":"svc-initialize","result":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
			case strings.Contains(body, `"ping"`):
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":"svc-ping","result":{}}`)
			case strings.Contains(body, `"tools/call"`):
				_, code, _ := strings.Cut(body, "code")
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":%s,"message":"no such thing"}}`, strings.Split(code, `"`)[0])
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		})
		r := newRig(t, federated("  - {name: one, url: "+up.URL+", prefix: one_}", allowEverything))
		sid := r.begin()
		for _, code := range []int{-32001, -32002, -32004, -32600, -32601, -32602, -32603, 7} {
			body := call("1", fmt.Sprint("one_code", code))
			got := r.post(body, "Mcp-Session-Id", sid, "MCP-Protocol-Version", "2025-11-25")
			if got.status != 200 || got.rpc(t).Error.Code != code {
				t.Errorf("stateful %v, %d in a session: %d %s", stateful, code, got.status, got.body)
			}
			if got := r.post(body, "MCP-Protocol-Version", "2025-11-25"); got.status != 404 || got.rpc(t).Error.Code != code {
				t.Errorf("stateful %v, %d without a session: %d %s", stateful, code, got.status, got.body)
			}
		}
		if got := r.post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", sid, "MCP-Protocol-Version", "2025-11-25"); got.status != 200 {
			t.Errorf("stateful %v: the session ended: %d %s", stateful, got.status, got.body)
		}
	}
}
