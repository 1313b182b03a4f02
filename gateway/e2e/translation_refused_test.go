package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A refusal by the translation is recorded in the audit line and in the log, with the cause,
// which the client does not receive.
func TestWhatTheTranslationRefusesIsRecorded(t *testing.T) {
	up := newGeneration(t, "up", false)
	r := newRig(t, questionConfig(up.URL, false, false, "method: no/such"))
	headers := append(modernHeaders("tools/call"), "Mcp-Name", "up_ask")
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"up_ask","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` + asksForm + `}}}`
	for _, tt := range []struct{ from, to, kind, cause string }{
		{`"arguments":{},`, `"arguments":{},"requestState":"AAAA","inputResponses":{"question":{"action":"accept"}},`, "request_state_mismatch", "forged or damaged"},
		{`"clientInfo":{`, `"clientInfo":5,"x":{`, "client_info", "not an object with the strings name and version"},
		{`"arguments":{},`, `"arguments":{},"task":{},`, "generation_unsupported", "tasks of 2026-07-28"},
	} {
		sent := strings.Replace(body, tt.from, tt.to, 1)
		if tt.kind == "client_info" {
			sent = strings.Replace(body, `{"name":"c","version":"1"}`, `5`, 1)
		}
		got := r.post(sent, headers...)
		if !strings.Contains(got.body, `"reason":"`+tt.kind+`"`) || !strings.Contains(got.body, tt.kind+": ") {
			t.Errorf("%s: %d %s", tt.kind, got.status, got.body)
		}
		lines := r.kinds("request")
		last := lines[len(lines)-1]
		if last["error_kind"] != tt.kind || last["is_error"] != true || last["upstream_dialect"] != "2025-11-25" || last["action"] != "allow" {
			t.Errorf("%s: line %v", tt.kind, last)
		}
		eventually(t, "the log lacks "+tt.kind, func() bool {
			for line := range strings.Lines(r.logs.String()) {
				if strings.Contains(line, `msg="request refused"`) && strings.Contains(line, "error_kind="+tt.kind) && strings.Contains(line, tt.cause) && strings.Contains(line, fmt.Sprint("request_id=", last["request_id"])) {
					return true
				}
			}
			return false
		})
	}
}

// A call that the gateway ends in a stream, after a server request of its upstream, is recorded
// in the same way.
func TestACallThatEndsAfterAQuestionIsRecorded(t *testing.T) {
	for _, stateless := range []bool{true, false} {
		up := newGeneration(t, "up", stateless)
		r := newRig(t, questionConfig(up.URL, stateless, false, "method: no/such"))
		body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"up_ask","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` + asksForm + `}}}`
		var got answer
		if stateless { // the client does not declare the capability for the server request
			headers := legacySession(r)
			got = r.post(call("7", "up_sample"), headers...)
		} else {
			headers := append(modernHeaders("tools/call"), "Mcp-Name", "up_ask")
			state := requestState.FindString(r.post(body, headers...).body)
			up.CloseClientConnections()
			got = r.post(strings.Replace(body, `"arguments":{},`, `"arguments":{},`+state+`,"inputResponses":{"question":{"action":"accept","content":{"ok":true}}},`, 1), headers...)
		}
		if got.status != http.StatusOK || !strings.Contains(got.body, "The call could not be completed") {
			t.Fatalf("stateless %v: %d %s", stateless, got.status, got.body)
		}
		lines := r.kinds("request")
		if last := lines[len(lines)-1]; last["error_kind"] != "input_failed" || last["is_error"] != true {
			t.Errorf("stateless %v: line %v", stateless, last)
		}
		eventually(t, "the refusal is not logged", func() bool {
			return strings.Contains(r.logs.String(), `msg="request refused"`) && strings.Contains(r.logs.String(), "error_kind=input_failed")
		})
	}
}

// The line of a frame has the revision of the upstream, as the line of its request has.
func TestLinesOfTranslatedFrames(t *testing.T) {
	for _, stateless := range []bool{true, false} {
		up := newGeneration(t, "up", stateless)
		r := newRig(t, questionConfig(up.URL, stateless, false, "method: no/such"))
		r.edit("audit:\n", "audit:\n  frames: all\n")
		if err := r.gateway.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"up_steps","arguments":{},"_meta":{"progressToken":1}}}`
		want := "2026-07-28"
		var headers []string
		if stateless {
			headers = legacySession(r)
		} else {
			want = "2025-11-25"
			headers = append(modernHeaders("tools/call"), "Mcp-Name", "up_steps")
			body = strings.Replace(body, `"progressToken":1`, `"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+asksForm, 1)
		}
		if got := r.post(body, headers...); !strings.Contains(got.body, "notifications/progress") {
			t.Fatalf("no stream: %d %s", got.status, got.body)
		}
		lines := r.kinds("frame")
		if len(lines) == 0 {
			t.Errorf("no lines of frames: %v", r.all())
		}
		for _, line := range lines {
			if line["upstream_dialect"] != want {
				t.Errorf("line %v, want %s", line, want)
			}
		}
	}
}

// legacySession opens a session and returns the headers of its requests.
func legacySession(r *rig) []string {
	opened := r.post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
	return []string{"Mcp-Session-Id", opened.header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-11-25"}
}

// A session that its client has ended is unknown, also with a server without sessions, so that
// the client begins another one.
func TestAnEndedSessionAtAServerWithoutSessions(t *testing.T) {
	for _, federated := range []bool{false, true} {
		up := newGeneration(t, "up", true)
		r := newRig(t, questionConfig(up.URL, true, federated, "method: no/such"))
		headers := legacySession(r)
		if got := r.post(call("1", "up_echo"), headers...); got.status != http.StatusOK {
			t.Fatalf("federated %v: %d %s", federated, got.status, got.body)
		}
		if got := r.do(http.MethodDelete, r.url, "", headers...); got.status != http.StatusNoContent {
			t.Errorf("federated %v: DELETE %d %s", federated, got.status, got.body)
		}
		for name, body := range map[string]string{"a call": call("2", "up_echo"), "a list": `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, "ping": `{"jsonrpc":"2.0","id":4,"method":"ping"}`} {
			if got := r.post(body, headers...); got.status != http.StatusNotFound || !strings.Contains(got.body, "session_not_found") {
				t.Errorf("federated %v, %s: %d %s", federated, name, got.status, got.body)
			}
		}
		if got := r.do(http.MethodDelete, r.url, "", headers...); got.status != http.StatusNotFound {
			t.Errorf("federated %v: a second DELETE %d %s", federated, got.status, got.body)
		}
	}
}
