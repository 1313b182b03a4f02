package gateway

import (
	"net/http"
	"strings"
	"testing"

	"svc/gateway/ratelimit/redistest"
)

// An answer that cannot be handed over to the replica that holds the call, because the store
// fails, leaves the server request open: the client gets an error that lets it send the answer
// again.
func TestAnAnswerWhileTheStoreFails(t *testing.T) {
	up := newGeneration(t, "up", false)
	server := redistest.Start(t)
	one, other := replicas(t, questionConfig(up.URL, false, false, "method: no/such"), inRedis(server.URL(), "operation_timeout: 200ms"))
	headers := append(modernHeaders("tools/call"), "Mcp-Name", "up_ask")
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"up_ask","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` + asksForm + `}}}`
	asked := one.post(body, headers...)
	state := requestState.FindString(asked.body)
	if state == "" {
		t.Fatalf("%d %s", asked.status, asked.body)
	}
	retry := strings.Replace(body, `"arguments":{},`, `"arguments":{},`+state+`,"inputResponses":{"question":{"action":"accept","content":{"ok":true}}},`, 1)
	server.Kill()
	got := other.post(retry, headers...)
	if got.status != http.StatusServiceUnavailable || got.rpc(t).Error.Data["reason"] != "session_store_unavailable" || got.header.Get("Retry-After") != "1" {
		t.Errorf("while it fails: %d %s", got.status, got.body)
	}
	lines := other.kinds("request")
	if last := lines[len(lines)-1]; last["error_kind"] != "session_store_unavailable" {
		t.Errorf("line %v", last)
	}
	server.Restart()
	eventually(t, "the answer is not taken when the store is back", func() bool {
		got = other.post(retry, headers...)
		return got.status == http.StatusOK
	})
	if !strings.Contains(got.body, `"text":"accept"`) {
		t.Errorf("afterwards: %d %s", got.status, got.body)
	}
}
