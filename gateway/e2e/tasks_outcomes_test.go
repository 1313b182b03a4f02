package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"svc/store/api"
)

// outcomeUpstream answers requests about tasks with the outputs of their tools.
func outcomeUpstream(t *testing.T) *upstreamServer {
	const said = `"content":[{"type":"ui","x":1},{"type":"text","text":"said"}]`
	return newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(body, "tasks/result"): // of 2025-11-25
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":2,"result":{%s}}`, said)
		case strings.Contains(body, "subscriptions/listen"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, `data: {"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t","status":"completed","result":{`+said+`}}}`+"\n\n")
			io.WriteString(w, `data: {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete"}}`+"\n\n")
		case strings.Contains(body, `"running"`):
			io.WriteString(w, `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","taskId":"running","status":"working"}}`)
		case strings.Contains(body, `"twice"`): // duplicate members: some parsers use the first, some the last
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","taskId":"t","result":{},"Result":{%s}}}`, said)
		case strings.Contains(body, `"case"`):
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","taskId":"t","result":{%s}}}`, strings.Replace(said, "content", "Content", 1))
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","taskId":"t","status":"completed","result":{%s}}}`, said)
		}
	})
}

const listenForTasks = `{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["t"]}}}`

// Rules and policies for the answers of tools apply to the outcomes of their tasks too.
func TestStripAppOfTaskOutcomes(t *testing.T) {
	up := outcomeUpstream(t)
	r := newRig(t, rules(basic(up.URL), "    - {id: strip, action: strip_app, when: {tool_name: apps}}\n    - {id: all, action: allow, when: {}}\n"))
	for _, method := range []string{"tasks/get", "tasks/result"} {
		if a := r.askTask(method, "t"); a.status != 200 || strings.Contains(a.body, `"ui"`) || !strings.Contains(a.body, "said") {
			t.Errorf("%s: %d %s", method, a.status, a.body)
		}
	}
	for _, handle := range []string{"twice", "case"} {
		if a := r.askTask("tasks/get", handle); a.status != http.StatusBadGateway || strings.Contains(a.body, `"ui"`) {
			t.Errorf("%s: %d %s", handle, a.status, a.body)
		}
	}
	if a := r.post(listenForTasks); strings.Contains(a.body, `"ui"`) || !strings.Contains(a.body, "said") {
		t.Errorf("notification: %d %s", a.status, a.body)
	}
	if l := r.lines(8)[0]; l["action"] != "strip_app" || l["stripped"] != 1.0 {
		t.Errorf("line: %v", l)
	}
}

func TestGovernanceByToolJudgesTaskOutcomes(t *testing.T) {
	up := outcomeUpstream(t)
	g := &governor{}
	g.give(api.GovernancePolicy{Phase: "response", Action: "block", Condition: api.Condition{Type: "tool_name", ToolName: "export"}})
	r := governedRig(t, open(up.URL)+governance, g)
	for _, method := range []string{"tasks/get", "tasks/result"} {
		if a := r.askTask(method, "t"); a.status != http.StatusForbidden || strings.Contains(a.body, "said") {
			t.Errorf("%s: %d %s, want a denial", method, a.status, a.body)
		}
	}
	if a := r.post(listenForTasks); strings.Contains(a.body, "said") {
		t.Errorf("notification: %d %s", a.status, a.body)
	}
	if a := r.askTask("tasks/get", "running"); a.status != 200 {
		t.Errorf("a task without a result: %d %s", a.status, a.body)
	}
}
