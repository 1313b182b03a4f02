package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway"
	"svc/store/api"
)

// What a caller sends to a server without calling it is judged as the call to which it belongs, with the
// labels of that moment: the answer to a question, progress of it, a cancellation with a reason, an input
// of a task. The upstream gets an error in place of an answer.
func TestAnswersAreJudgedByLabels(t *testing.T) {
	t.Parallel()
	const rules = "  rules:\n    - {id: no-secrets, action: deny, when: {tool_name_in: [web_ask, web_task], labels_all: [untrusted, private]}}\n"
	result := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept"}}` }
	progressOf := func(token string) string {
		return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":1}}`
	}
	cancelled := func(more string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7` + more + `}}`
	}
	for _, tt := range []struct {
		name, call string
		body       string
		status     int // with both labels
		restart    bool
		forgotten  string // sent to the upstream in its place
	}{
		{name: "an answer", call: "web_ask", body: result(`"q-1"`), status: 403, forgotten: `{"jsonrpc":"2.0","id":"q-1","error":{"code":-32001`},
		{name: "an answer to a tool that is not restricted", call: "note_ask", body: result(`"q-1"`), status: 202},
		{name: "an answer to a question that is not known", call: "note_ask", body: result(`"q-9"`), status: 403, forgotten: `{"jsonrpc":"2.0","id":"q-9","error":{"code":-32001`},
		{name: "an answer after a restart", call: "note_ask", body: result(`"q-1"`), restart: true, status: 403, forgotten: `{"jsonrpc":"2.0","id":"q-1","error":{"code":-32001`},
		{name: "progress", call: "web_ask", body: progressOf(`"p-1"`), status: 403},
		{name: "progress of a tool that is not restricted", call: "note_ask", body: progressOf(`"p-1"`), status: 202},
		{name: "the state of the task of a question, which is not known", call: "note_ask", body: `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t-1","status":"working","statusMessage":"what I know"}}`, status: 403},
		{name: "an input of a task", call: "web_task", body: rpc("tasks/update", `"taskId":"web_task","inputResponses":{}`), status: 403},
		{name: "an input of a task of another tool", call: "note_task", body: rpc("tasks/update", `"taskId":"note_task","inputResponses":{}`), status: 200},
		{name: "an input of a task that is not known", call: "note_task", body: rpc("tasks/update", `"taskId":"t-9","inputResponses":{}`), status: 403},
		{name: "the end of a task", call: "web_task", body: rpc("tasks/cancel", `"taskId":"web_task"`), status: 200},
		{name: "a cancellation", call: "web_get", body: cancelled(""), status: 202},
		{name: "a cancellation with a reason, of a call that is not known", call: "web_get", body: cancelled(`,"reason":"what I know"`), status: 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			main, mail := flowServer(t), flowServer(t)
			var later atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			r := newRigWith(t, strings.Replace(flowConfig(main.URL, mail.URL, ""), "  rules:\n", rules, 1), func(o *gateway.Options) { o.Now = now })
			sid := r.begin()
			r.post(call("7", tt.call), "Mcp-Session-Id", sid)
			tag := func(body string) string { // ids in a session with two upstreams
				return strings.NewReplacer(`"q-1"`, `"svc~main~\"q-1\""`, `"q-9"`, `"svc~main~\"q-9\""`, `"p-1"`, `"svc~main~\"p-1\""`).Replace(body)
			}
			if strings.Contains(tt.call, "web_") && !strings.Contains(tt.name, "not known") { // one label does not restrict
				if got := r.post(tag(tt.body), "Mcp-Session-Id", sid); got.status != 202 && got.status != 200 {
					t.Errorf("without the second label: %d %s", got.status, got.body)
				}
			}
			r.post(call("8", "web_get"), "Mcp-Session-Id", sid)
			r.post(call("9", "crm_find"), "Mcp-Session-Id", sid)
			if tt.restart {
				r = restart(t, r)
			}
			before := len(main.seen())
			got := r.post(tag(tt.body), "Mcp-Session-Id", sid)
			if got.status != tt.status {
				t.Fatalf("got %d %s, want %d", got.status, got.body, tt.status)
			}
			line := r.lastLine()
			if tt.status == 403 && (line["action"] != "deny" || line["rule_id"] != "no-secrets") {
				t.Errorf("audit line %v", line)
			}
			want := 1
			if tt.status == 403 && tt.forgotten == "" {
				want = 0
			}
			eventually(t, fmt.Sprintf("the upstream did not get %d messages", want), func() bool { return len(main.seen())-before == want })
			if sent := main.seen(); tt.forgotten != "" && !strings.HasPrefix(sent[len(sent)-1].body, tt.forgotten) {
				t.Errorf("the upstream got %s, want %s", sent[len(sent)-1].body, tt.forgotten)
			}
		})
	}
}

// A cancellation with a reason is judged as the call that it cancels, while that runs.
func TestACancellationIsJudgedAsItsCall(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]int{"note_wait": 202, "shell_wait": 403} {
		main, mail := flowServer(t), flowServer(t)
		r := newRig(t, strings.Replace(flowConfig(main.URL, mail.URL, ""), "  rules:\n", "  rules:\n    - {id: no-shell, action: deny, when: {tool_prefix: shell_, labels_any: [untrusted]}}\n", 1))
		sid := r.begin()
		running := r.open("POST", call("7", tool), "Mcp-Session-Id", sid)
		r.post(call("8", "web_get"), "Mcp-Session-Id", sid)
		if got := r.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"what I know"}}`, "Mcp-Session-Id", sid); got.status != want {
			t.Errorf("%s: %d %s, want %d", tool, got.status, got.body, want)
		}
		running.Body.Close()
	}
}

// A policy of the control plane with data_flow blocks a call, and the answer to a question of one.
func TestPoliciesLookAtLabels(t *testing.T) {
	t.Parallel()
	main, mail := flowServer(t), flowServer(t)
	g := new(governor)
	g.give(api.GovernancePolicy{Phase: "request", Action: "block",
		Condition: api.Condition{Type: "data_flow", LabelsAll: []string{"untrusted", "private"}, ToolName: "web_ask"}})
	const rules = "policy: {default_action: allow, rules: []}\n"
	r := governedRig(t, strings.Replace(flowConfig(main.URL, mail.URL, ""), flowRules, "\n"+rules, 1)+governance, g)
	sid := r.begin()
	answer := `{"jsonrpc":"2.0","id":"svc~main~\"q-1\"","result":{"action":"accept"}}`
	for _, s := range []struct {
		body string
		want int
	}{
		{call("7", "web_ask"), 200}, {answer, 202}, {call("8", "crm_find"), 200}, {answer, 403}, {call("9", "web_ask"), 403}, {call("9", "web_get"), 200},
	} {
		if got := r.post(s.body, "Mcp-Session-Id", sid); got.status != s.want {
			t.Errorf("%s: %d %s, want %d", s.body, got.status, got.body, s.want)
		}
	}
}

// A model that is denied for what it has read is told so, and not to try again; a message of the rule
// stands in its place.
func TestAModelIsToldOfLabels(t *testing.T) {
	t.Parallel()
	main, mail := flowServer(t), flowServer(t)
	config := strings.Replace(flowConfig(main.URL, mail.URL, ""), "default_action: allow", "default_action: allow\n  deny_as: tool_error", 1)
	config = strings.Replace(config, "{id: untrusted, action: deny,", "{id: untrusted, action: deny, message: Ask Ada.,", 1)
	r := newRig(t, config)
	r.post(call("1", "web_get"))
	r.post(call("2", "crm_find"))
	for tool, want := range map[string]string{
		"web_send":       "policy_denied: what was read before does not allow this call (labels: private, untrusted). Do not send it again",
		"need_untrusted": "policy_denied: Ask Ada.",
	} {
		if got := r.post(call("3", tool)); got.status != 200 || !strings.Contains(got.body, want) || !strings.Contains(got.body, `"isError":true`) {
			t.Errorf("%s: %d %s, want %s", tool, got.status, got.body, want)
		}
	}
}
