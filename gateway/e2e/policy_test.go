package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"svc/gateway/mcp"
)

// A denied tools/call is an HTTP error, or with deny_as: tool_error a result that the model
// reads. Both have the message of the rule; the audit line is the same.
func TestDenialsThatAModelCanUse(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m mcp.Message
		_ = mcp.Scan(body, &m)
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
		if m.Name == "stream" {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", answer)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer)
	}))
	defer up.Close()
	config := func(as string) string {
		return rules(strings.Replace(basic(up.URL), "policy:\n", "policy:\n  deny_as: "+as+"\n", 1), `
    - {id: no-deletes, action: deny, when: {tool_name: delete}, message: "Ask an operator to \"delete\"."}
    - {id: answers, action: deny, when: {direction: server_to_client}}
    - {id: calls, action: allow, when: {tool_name_in: [plain, stream]}}
`)
	}
	modern := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"delete","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, as := range []string{"http", "tool_error"} {
		r := newRig(t, config(as))
		for _, tt := range []struct {
			name, body string
			headers    []string
			text       string // of the result, with 0 for the request's id
			message    string // error.data.message
			stateless  bool
		}{
			{name: "a rule with a message", body: call("7", "delete"), text: `policy_denied: Ask an operator to "delete". (request 0)`, message: `Ask an operator to "delete".`},
			{name: "the default action", body: call("7", "unknown"), text: "policy_denied: a policy of the gateway does not allow this call (request 0)"},
			{name: "of 2026-07-28", body: modern, headers: append(modernHeaders("tools/call"), "Mcp-Name", "delete"), text: `policy_denied: Ask an operator to "delete". (request 0)`, message: `Ask an operator to "delete".`, stateless: true},
			{name: "an answer", body: call("7", "plain"), text: "policy_denied: a policy of the gateway does not allow this call. The tool has run: its answer is withheld (request 0)"},
			{name: "the answer of a stream", body: call("7", "stream"), text: "policy_denied: a policy of the gateway does not allow this call. The tool has run: its answer is withheld (request 0)"},
		} {
			got := r.post(tt.body, tt.headers...)
			text := got.body
			if _, data, ok := strings.Cut(text, "data: "); ok {
				text = strings.TrimSpace(data)
			}
			var answer struct {
				ID     int
				Result *struct {
					Content    []struct{ Type, Text string }
					IsError    bool
					ResultType string
				}
				Error *struct {
					Code int
					Data struct {
						Message string
						ID      string `json:"request_id"`
					}
				}
			}
			if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.ID != 7 {
				t.Fatalf("%s, %s: %d %s", as, tt.name, got.status, got.body)
			}
			lines := r.all()
			line := lines[len(lines)-1]
			id, _ := line["request_id"].(string)
			status := http.StatusForbidden
			if strings.Contains(tt.body, `"stream"`) {
				status = http.StatusOK
			}
			if line["action"] != "deny" || line["status"] != float64(status) {
				t.Errorf("%s, %s: the line is %v", as, tt.name, line)
			}
			switch {
			case as == "http":
				if got.status != status || answer.Error == nil || answer.Error.Code != mcp.CodePolicyDenied || answer.Error.Data.Message != tt.message {
					t.Errorf("%s, %s: %d %s", as, tt.name, got.status, got.body)
				}
			case got.status != http.StatusOK || answer.Result == nil || !answer.Result.IsError || len(answer.Result.Content) != 1 || (answer.Result.ResultType == "complete") != tt.stateless:
				t.Errorf("%s, %s: %d %s", as, tt.name, got.status, got.body)
			case answer.Result.Content[0].Text != strings.Replace(tt.text, "request 0", "request "+id, 1):
				t.Errorf("%s, %s: %s", as, tt.name, answer.Result.Content[0].Text)
			}
		}
		// Refusals that are no denials, and requests other than tools/call, are not changed by
		// deny_as.
		if got := r.post(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"delete"}}`, "Authorization", "Bearer nobody"); got.status != http.StatusUnauthorized {
			t.Errorf("%s: a wrong key: %d %s", as, got.status, got.body)
		}
	}
}

// An error -32042 asks the user to visit addresses: a rule that denies elicitation/create denies it
// for clients of every generation, in JSON answers and in frames, with one upstream and with
// federation, in every spelling of the number.
func TestTheErrorThatAsksForAVisitIsJudgedAsElicitation(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"-32042": "policy_denied", "-32042.0": "policy_denied", "-3.2042e4": "policy_denied",
		`"-32042"`: "upstream_invalid", `" -32042"`: "upstream_invalid", `"-32042.0"`: "upstream_invalid", // which some clients read as the number
	} {
		for _, media := range []string{"application/json", "text/event-stream"} {
			for _, more := range []string{"", "federation: {enabled: true}\n"} {
				for _, when := range []string{"method: elicitation/create", "result_type: input_required"} {
					up := newScripted(t)
					up.call = func(w http.ResponseWriter, _ string, _ *http.Request) {
						body := `{"jsonrpc":"2.0","id":1,"error":{"code":` + code + `,"message":"sign in","data":{"elicitations":[{"mode":"url","elicitationId":"v","url":"https://visit.example/","message":"sign in"}]}}}`
						w.Header().Set("Content-Type", media)
						if media != "application/json" {
							body = "data: " + body + "\n\n"
						}
						io.WriteString(w, body)
					}
					rule := fmt.Sprintf("    - {id: no-visit, action: deny, when: {%s, direction: server_to_client}}\n", when)
					r := newRig(t, rules(basic(up.URL), rule)+more)
					headers := []string{"Mcp-Session-Id", r.begin()}
					got := r.post(call("1", "safe"), headers...)
					if strings.Contains(got.body, "visit.example") || !strings.Contains(got.body, want) {
						t.Errorf("%s, %s, %q, %s: %d %s", code, media, more, when, got.status, got.body)
					}
				}
			}
		}
	}
}

// A client mirrors an argument with half a surrogate pair in a header as U+FFFD, because UTF-8
// cannot encode it. The header is compared with the message that is sent, and forwarded.
func TestReplacedSurrogatesAgreeWithMirroredArguments(t *testing.T) {
	up := newUpstream(t, echo)
	r := newRig(t, rules(basic(up.URL), "    - {id: mask, action: redact, when: {tool_name: mask}, redact: [{regex: secret, replacement: '-'}]}\n"))
	const mirrored = "=?base64?Y3V0IO+/vQ==?=" // "cut \uFFFD"
	body := strings.Replace(call("1", "mask"), "{}", `{"city":"cut \ud83d","b":"secret"}`, 1)
	if got := r.post(body, "Mcp-Param-City", mirrored); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	sent := up.seen()[0]
	if !strings.Contains(sent.body, "{\"city\":\"cut \uFFFD\",\"b\":\"-\"}") || sent.header.Get("Mcp-Param-City") != mirrored {
		t.Errorf("the upstream got %s with %q", sent.body, sent.header.Get("Mcp-Param-City"))
	}
}

// Policies of the control plane are applied to the text that is sent.
func TestReplacedSurrogatesAreJudgedByPolicies(t *testing.T) {
	up := newUpstream(t, echo)
	g := &governor{}
	g.give(requestPII("redact", "replace", "EMAIL"))
	r := governedRig(t, open(up.URL)+governance, g)
	if got := r.post(callWith(`{"to":"bob@example.com \ud83d"}`)); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	if s := up.seen()[0].body; !strings.Contains(s, "[EMAIL] \uFFFD") && !strings.Contains(s, `[EMAIL] \ufffd`) {
		t.Errorf("the upstream got %s", s)
	}
}
