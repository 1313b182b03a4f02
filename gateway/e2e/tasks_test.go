package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"svc/gateway/session"
)

// taskUpstream creates a task for every tools/call, named by handle. It answers every other
// request; a listen gets a stream that ends at once.
func taskUpstream(t testing.TB, made func(id, handle string) (media, body string)) *upstreamServer {
	return newUpstream(t, func(w http.ResponseWriter, body string, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Arguments struct{ Handle string }
			}
		}
		_ = json.Unmarshal([]byte(body), &m)
		switch {
		case m.Method == "tools/call":
			media, answer := made(string(m.ID), m.Params.Arguments.Handle)
			w.Header().Set("Content-Type", media)
			io.WriteString(w, answer)
		case m.Method == "subscriptions/listen":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"complete\"}}\n\n", m.ID)
		default:
			echo(w, body, r)
		}
	})
}

func jsonTask(id, handle string) (media, body string) {
	return "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"task","taskId":%q,"status":"working"}}`, id, handle)
}

// taskRules allow task methods in addition to the rules of basic.
const taskRules = "    - {id: tasks, action: allow, when: {}}\n"

// makeTask calls the tool "slow", which is at the second upstream.
func (r *rig) makeTask(handle string, headers ...string) {
	r.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"handle":%q}}}`, handle)
	if got := r.post(body, headers...); got.status != 200 || !strings.Contains(got.body, handle) {
		r.t.Fatalf("tools/call: %d %s", got.status, got.body)
	}
}

// askTask sends a request about a task.
func (r *rig) askTask(method, handle string, headers ...string) answer {
	r.t.Helper()
	return r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":%q,"params":{"taskId":%q}}`, method, handle), headers...)
}

// asked counts the requests about a task that an upstream received.
func (u *upstreamServer) asked(method, handle string) (n int) {
	for _, req := range u.seen() {
		if strings.Contains(req.body, fmt.Sprintf("%q", method)) && strings.Contains(req.body, fmt.Sprintf(`"taskId":%q`, handle)) {
			n++
		}
	}
	return n
}

// Requests about a task go to the upstream that created it, in whatever form that upstream
// returned the task.
func TestTaskIsFollowedToItsUpstream(t *testing.T) {
	_, modernAnswer := jsonTask("1", "t1")
	legacy := `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t1","status":"working"}}}`
	for _, tt := range []struct{ name, media, sent string }{
		{"a JSON answer", "application/json", modernAnswer},
		{"an event frame", "text/event-stream", "data: " + progress + "\n\ndata: " + modernAnswer + "\n\n"},
		{"a 2025-11-25 answer", "application/json", legacy},
		{"a 2025-11-25 event frame", "text/event-stream", "id: 1\ndata: " + legacy + "\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := taskUpstream(t, jsonTask)
			second := taskUpstream(t, func(string, string) (string, string) { return tt.media, tt.sent })
			r := newRig(t, rules(twoUpstreams(first.URL, second.URL), taskRules))
			if r.askTask("tasks/get", "t1"); first.asked("tasks/get", "t1") != 1 || second.asked("tasks/get", "t1") != 0 {
				t.Error("a request about an unknown task did not go to default_upstream")
			}
			r.makeTask("t1")
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel", "tasks/result"} {
				before := first.asked(method, "t1")
				if got := r.askTask(method, "t1"); got.status != 200 || second.asked(method, "t1") != 1 || first.asked(method, "t1") != before {
					t.Errorf("%s went astray: %d %s", method, got.status, got.body)
				}
			}
			if r.askTask("tasks/get", "t2"); first.asked("tasks/get", "t2") != 1 {
				t.Error("a request about another task did not go to default_upstream")
			}
			lines := r.kinds("request")
			if made := lines[1]; made["method"] != "tools/call" || made["task_handle"] != "t1" || made["upstream"] != "second" {
				t.Errorf("the line of the call is %v", made)
			}
			if asked := lines[2]; asked["task_handle"] != "t1" || asked["upstream"] != "second" {
				t.Errorf("the line of tasks/get is %v", asked)
			}
		})
	}
}

// A task belongs to one typed principal: another principal's request with the same handle goes to
// default_upstream.
func TestTaskAffinityIsPerPrincipal(t *testing.T) {
	first, second := taskUpstream(t, jsonTask), taskUpstream(t, jsonTask)
	r := newRig(t, rules(twoUpstreams(first.URL, second.URL), taskRules))
	r.makeTask("t1")
	r.askTask("tasks/get", "t1", "Authorization", "Bearer "+r.other)
	if first.asked("tasks/get", "t1") != 1 || second.asked("tasks/get", "t1") != 0 {
		t.Error("another principal's request followed the task")
	}
}

// Affinity decides where a request goes, not whether it is allowed: without a rule that allows it
// tasks/get is denied, also for a known task.
func TestTaskAffinityIsNoAuthorization(t *testing.T) {
	first, second := taskUpstream(t, jsonTask), taskUpstream(t, jsonTask)
	r := newRig(t, twoUpstreams(first.URL, second.URL))
	r.makeTask("t1")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if got := r.askTask(method, "t1"); got.status != 403 || got.rpc(t).Error.Message != "policy_denied" {
			t.Errorf("%s: %d %s", method, got.status, got.body)
		}
	}
	if len(second.seen()) != 1 {
		t.Errorf("the upstream got %v", second.seen())
	}
}

// The affinity of a task whose answer policy withholds is not stored.
func TestDeniedTaskIsNotLearned(t *testing.T) {
	first, second := taskUpstream(t, jsonTask), taskUpstream(t, jsonTask)
	r := newRig(t, rules(twoUpstreams(first.URL, second.URL), taskRules+"    - {id: none, action: deny, when: {direction: server_to_client}}\n"))
	if got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"handle":"t1"}}}`); got.status != 403 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	r.askTask("tasks/get", "t1")
	if first.asked("tasks/get", "t1") != 1 {
		t.Error("a denied task was followed")
	}
}

// max_entries and ttl bound the map. Requests about evicted or expired tasks go to
// default_upstream.
func TestTaskAffinityBounds(t *testing.T) {
	t.Parallel()
	t.Run("max_entries", func(t *testing.T) {
		first, second := taskUpstream(t, jsonTask), taskUpstream(t, jsonTask)
		r := newRig(t, rules(twoUpstreams(first.URL, second.URL), taskRules)+"task_affinity: {max_entries: 2}\n")
		for _, handle := range []string{"t1", "t2", "t3"} {
			r.makeTask(handle)
		}
		for handle, upstream := range map[string]*upstreamServer{"t1": first, "t2": second, "t3": second} {
			if r.askTask("tasks/get", handle); upstream.asked("tasks/get", handle) != 1 {
				t.Errorf("%s went astray", handle)
			}
		}
	})
	t.Run("ttl", func(t *testing.T) {
		first, second := taskUpstream(t, jsonTask), taskUpstream(t, jsonTask)
		r := newRig(t, rules(twoUpstreams(first.URL, second.URL), taskRules)+"task_affinity: {ttl: 1s}\n")
		r.makeTask("t1")
		eventually(t, "the entry did not expire", func() bool {
			r.askTask("tasks/get", "t1")
			return first.asked("tasks/get", "t1") > 0
		})
		r.makeTask("t1") // overwritten: it is valid again
		before := first.asked("tasks/get", "t1")
		if r.askTask("tasks/get", "t1"); first.asked("tasks/get", "t1") != before {
			t.Error("a task that was stored again is not followed")
		}
	})
}

// With one upstream no task is looked up; the audit lines have the handle all the same.
func TestSingleUpstreamSkipsTheTaskMap(t *testing.T) {
	up := taskUpstream(t, jsonTask)
	r := newRig(t, rules(basic(up.URL), taskRules))
	r.makeTask("t1")
	if r.askTask("tasks/get", "t1"); up.asked("tasks/get", "t1") != 1 {
		t.Error("tasks/get did not arrive")
	}
	for _, line := range r.lines(2) {
		if line["task_handle"] != "t1" {
			t.Errorf("line %v", line)
		}
	}
}

// Without default_upstream an unknown task has no route; a known one has.
func TestUnknownTaskWithoutDefaultUpstreamHasNoRoute(t *testing.T) {
	first, second := taskUpstream(t, jsonTask), taskUpstream(t, jsonTask)
	r := newRig(t, strings.Replace(rules(twoUpstreams(first.URL, second.URL), taskRules), "default_upstream: main\n", "", 1))
	if got := r.askTask("tasks/get", "t1"); got.status != 404 || got.rpc(t).Error.Message != "no_route" {
		t.Errorf("unknown: %d %s", got.status, got.body)
	}
	r.makeTask("t1")
	if got := r.askTask("tasks/get", "t1"); got.status != 200 {
		t.Errorf("known: %d %s", got.status, got.body)
	}
}

// A subscription only to tasks goes to the upstream that has all of them; any other goes to
// default_upstream.
func TestListenFollowsItsTasks(t *testing.T) {
	for _, tt := range []struct{ name, notifications, upstream string }{
		{"tasks of one upstream", `"taskIds":["t1","t2"]`, "second"},
		{"tasks and lists", `"taskIds":["t1"],"toolsListChanged":true`, "first"},
		{"an unknown task", `"taskIds":["t1","t9"]`, "first"},
		{"no task", `"taskIds":[]`, "first"},
		{"lists", `"toolsListChanged":true`, "first"},
		{"more tasks than are looked up", `"taskIds":["t1"` + strings.Repeat(`,"t1"`, session.MaxListenTasks) + `]`, "first"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, second := taskUpstream(t, jsonTask), taskUpstream(t, jsonTask)
			r := newRig(t, rules(twoUpstreams(first.URL, second.URL), taskRules))
			r.makeTask("t1")
			r.makeTask("t2")
			got := r.post(modern("5", "subscriptions/listen", `"notifications":{`+tt.notifications+`}`), modernHeaders("subscriptions/listen")...)
			if got.status != 200 {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			listens := map[string]int{}
			for name, u := range map[string]*upstreamServer{"first": first, "second": second} {
				for _, req := range u.seen() {
					if strings.Contains(req.body, "subscriptions/listen") {
						listens[name]++
					}
				}
			}
			if len(listens) != 1 || listens[tt.upstream] != 1 {
				t.Errorf("the listen went to %v, want %s", listens, tt.upstream)
			}
		})
	}
}

// Requests about tasks of a 2025-11-25 session are sent in the session at the upstream that
// created them.
func TestLegacyTaskIsFollowedInItsSession(t *testing.T) {
	first, second, r, sid := two(t)
	second.call = func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t1","status":"working"}}}`)
	}
	r.makeTask("t1", "Mcp-Session-Id", sid)
	r.askTask("tasks/result", "t1", "Mcp-Session-Id", sid)
	sent := second.sent("tasks/result")
	if len(sent) != 1 || sent[0].header.Get("Mcp-Session-Id") != "s1" || len(first.sent("tasks/result")) != 0 {
		t.Errorf("the second upstream got %v, the first %v", sent, first.sent("tasks/result"))
	}
}

// The span of a call that creates a task, and the spans of later requests about it, have the
// handle: also when the response is an event stream, and under 2025-11-25.
func TestTaskHandleStandsInSpans(t *testing.T) {
	for _, tt := range []struct{ name, media, sent string }{
		{"2026-07-28", "text/event-stream", "data: " + `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t1"}}` + "\n\n"},
		{"2025-11-25", "application/json", `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t1"}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newOTLPCollector(t)
			first := taskUpstream(t, jsonTask)
			second := taskUpstream(t, func(string, string) (string, string) { return tt.media, tt.sent })
			r := newRig(t, rules(twoUpstreams(first.URL, second.URL), taskRules)+"telemetry:\n"+pipeline("customer", c.URL, ""))
			r.makeTask("t1")
			for _, method := range []string{"tasks/get", "tasks/cancel"} {
				r.askTask(method, "t1")
			}
			r.stop()
			roots := c.roots()
			if len(roots) != 3 {
				t.Fatalf("%d spans, want 3", len(roots))
			}
			for _, span := range roots {
				if got := spanAttributes(span); got["mcp.task.handle"] != "t1" || got["mcp.upstream"] != "second" {
					t.Errorf("%s: %v", span.Name, got)
				}
			}
		})
	}
}
