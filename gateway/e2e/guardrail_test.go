package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// guardServer is a guardrail endpoint that records the requests it receives.
type guardServer struct {
	*upstreamServer
	mu    sync.Mutex
	reply func(body string) (status int, answer string)
}

func newGuard(t testing.TB, reply func(body string) (int, string)) *guardServer {
	s := &guardServer{reply: reply}
	s.upstreamServer = newUpstream(t, func(w http.ResponseWriter, body string, _ *http.Request) {
		s.mu.Lock()
		reply := s.reply
		s.mu.Unlock()
		status, answer := reply(body)
		w.WriteHeader(status)
		io.WriteString(w, answer)
	})
	return s
}

func (s *guardServer) answer(reply func(string) (int, string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply = reply
}

func says(status int, answer string) func(string) (int, string) {
	return func(string) (int, string) { return status, answer }
}

// masks returns a verdict with the message in which a text is replaced.
func masks(old, new string) func(string) (int, string) {
	return func(body string) (int, string) {
		return 200, `{"action":"mask","body":` + strings.ReplaceAll(body, old, new) + `}`
	}
}

// guardedBy is a configuration whose first rule applies a guardrail to mail, and whose second
// rule would deny mail.
func guardedBy(upstream, guard, endpoint, rule string) string {
	return fmt.Sprintf(`
default_upstream: main
upstreams:
  - name: main
    url: %s
routes:
  - match: {tool_name: "*"}
    upstream: main
guardrails:
  - name: dlp
    url: %s/check
%s
policy:
  default_action: allow
  rules:
    - id: ask
      action: guardrail
      guardrail: dlp
%s
    - id: never-reached
      action: deny
      when: {tool_name: mail}
`, upstream, guard, endpoint, rule)
}

const (
	ofCalls   = `      when: {tool_name: mail}`
	ofAnswers = `      when: {direction: server_to_client}`
	mail      = `{"jsonrpc":"2.0","id":"m-1","method":"tools/call","params":{"name":"mail","arguments":{"to":"ann"}}}`
	hi        = `{"jsonrpc":"2.0","id":"m-1","method":"tools/call","params":{"name":"other","arguments":{}}}`
)

// TestGuardrailOutcomes: the rows of the gateway specification, Action: guardrail, as the client,
// the upstream and the audit line see them.
func TestGuardrailOutcomes(t *testing.T) {
	const small = "    max_body_bytes: 20\n"
	for _, c := range []struct {
		name, endpoint string
		reply          func(string) (int, string)
		status         int
		sent           string // the message that the upstream received; empty when it was not contacted
		action         string
		verdict, kind  string
		asked          int
	}{
		{"pass", "", says(200, `{"action":"pass"}`), 200, mail, "allow", "pass", "", 1},
		{"mask with body", "", masks("ann", "***"), 200, strings.Replace(mail, "ann", "***", 1), "redact", "mask", "", 1},
		{"reject", "", says(200, `{"action":"reject","reason":"s3cret-reason"}`), 403, "", "deny", "reject", "", 1},
		{"callout error fail_open false", "", says(500, ``), 403, "", "deny", "error_failclosed", "guardrail_unreachable", 1},
		{"callout error fail_open true", "    fail_open: true\n", says(500, ``), 200, mail, "allow", "error_failopen", "", 1},
		{"unknown action", "", says(200, `{"action":"x"}`), 403, "", "deny", "error_failclosed", "guardrail_unreachable", 1},
		{"mask without body", "", says(200, `{"action":"mask"}`), 403, "", "deny", "error_failclosed", "guardrail_unreachable", 1},
		{"mask changing the tool", "", masks("mail", "pay"), 403, "", "deny", "error_failclosed", "guardrail_unreachable", 1},
		{"mask changing the tool fail_open true", "    fail_open: true\n", masks("mail", "pay"), 200, mail, "allow", "error_failopen", "", 1},
		{"oversize fail_open false", small, says(200, `{"action":"pass"}`), 403, "", "deny", "error_failclosed", "guardrail_body_too_large", 0},
		{"oversize fail_open true", small + "    fail_open: true\n", says(200, `{"action":"pass"}`), 200, mail, "allow", "error_failopen", "guardrail_body_too_large", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newUpstream(t, echo)
			guard := newGuard(t, c.reply)
			r := newRig(t, guardedBy(up.URL, guard.URL, c.endpoint, ofCalls))
			a := r.post(mail)
			if a.status != c.status {
				t.Fatalf("status %d, want %d: %s", a.status, c.status, a.body)
			}
			if strings.Contains(a.body, "s3cret") || strings.Contains(a.body, "dlp") || strings.Contains(a.body, "ask") {
				t.Errorf("the response has details of the guardrail: %s", a.body)
			}
			if c.status == 403 {
				e := a.rpc(t)
				if e.Error.Code != -32001 || e.Error.Message != "policy_denied" || string(e.ID) != `"m-1"` {
					t.Errorf("answer %s", a.body)
				}
			}
			sent := ""
			if seen := up.seen(); len(seen) > 0 {
				sent = seen[0].body
			}
			if sent != c.sent {
				t.Errorf("the upstream got %q, want %q", sent, c.sent)
			}
			seen := guard.seen()
			if len(seen) != c.asked || c.asked == 1 && (seen[0].body != mail || seen[0].method != "POST") {
				t.Errorf("the guardrail received %+v", seen)
			}
			line := r.lines(1)[0]
			kind, _ := line["error_kind"].(string)
			if line["action"] != c.action || line["guardrail_verdict"] != c.verdict || kind != c.kind ||
				line["guardrail_name"] != "dlp" || line["rule_id"] != "ask" {
				t.Errorf("line %v", line)
			}
			if _, ok := line["guardrail_latency_ms"].(float64); !ok {
				t.Errorf("no latency: %v", line)
			}
			if spans, _ := json.Marshal(line["spans"]); strings.Contains(string(spans), "guardrail") != (c.asked > 0) {
				t.Errorf("spans %s", spans)
			}
			if text := fmt.Sprint(line) + r.logs.String(); strings.Contains(text, "s3cret") {
				t.Error("the reason is in the audit line or the log")
			}
			if failed := strings.Contains(r.logs.String(), "guardrail callout failed"); failed != strings.HasPrefix(c.verdict, "error") {
				t.Errorf("warned: %v", failed)
			}
		})
	}
}

// TestGuardrailIsAskedEachTime: the cache holds which rule decides, not the verdict of its
// guardrail.
func TestGuardrailIsAskedEachTime(t *testing.T) {
	up := newUpstream(t, echo)
	guard := newGuard(t, says(200, `{"action":"pass"}`))
	r := newRig(t, guardedBy(up.URL, guard.URL, "", ofCalls))
	for i, want := range []int{200, 200, 403, 200} {
		guard.answer(says(200, `{"action":"pass"}`))
		if want == 403 {
			guard.answer(says(200, `{"action":"reject"}`))
		}
		if a := r.post(mail); a.status != want {
			t.Errorf("call %d: %d, want %d", i, a.status, want)
		}
	}
	if n := len(guard.seen()); n != 4 {
		t.Errorf("%d callouts, want 4", n)
	}
}

// TestGuardrailOnAnswers: a server_to_client rule on plain JSON responses.
func TestGuardrailOnAnswers(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":"m-1","result":{"content":[{"type":"text","text":"ann"}]}}`
	for _, c := range []struct {
		name   string
		reply  func(string) (int, string)
		status int
		body   string // empty for a refusal
		action string
		kind   string
	}{
		{"pass", says(200, `{"action":"pass"}`), 200, answer, "allow", ""},
		{"mask", masks("ann", "***"), 200, strings.Replace(answer, "ann", "***", 1), "redact", ""},
		{"reject", says(200, `{"action":"reject"}`), 403, "", "deny", ""},
		{"mask changing the id", masks("m-1", "m-2"), 403, "", "deny", "guardrail_unreachable"},
		{"callout error", says(404, ``), 403, "", "deny", "guardrail_unreachable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ string, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, answer)
			})
			guard := newGuard(t, c.reply)
			r := newRig(t, guardedBy(up.URL, guard.URL, "", ofAnswers))
			a := r.post(hi)
			if a.status != c.status || c.body != "" && a.body != c.body {
				t.Fatalf("%d %s", a.status, a.body)
			}
			if seen := guard.seen(); len(seen) != 1 || seen[0].body != answer {
				t.Errorf("asked %+v", seen)
			}
			line := r.lines(1)[0]
			kind, _ := line["error_kind"].(string)
			if line["action"] != c.action || kind != c.kind || line["guardrail_name"] != "dlp" {
				t.Errorf("line %v", line)
			}
		})
	}
}

// TestGuardrailOnFrames: a rule has no effect on event streams, unless frames: true, with which
// each frame is checked in its order.
func TestGuardrailOnFrames(t *testing.T) {
	const final = `{"jsonrpc":"2.0","id":"m-1","result":{"content":[]}}`
	frame := func(n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"ann %d"}}`, n)
	}
	serve := func(w http.ResponseWriter, _ string, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %s\n\n", frame(i))
		}
		fmt.Fprintf(w, "data: %s\n\n", final)
	}
	event := func(bodies ...string) string {
		text := ""
		for _, b := range bodies {
			text += "data: " + b + "\n\n"
		}
		return text
	}
	// The second verdict takes longest: the order of the frames does not depend on the order of
	// the verdicts.
	judge := func(body string) (int, string) {
		switch {
		case strings.Contains(body, "ann 0"):
			return masks("ann", "***")(body)
		case strings.Contains(body, "ann 1"):
			time.Sleep(50 * time.Millisecond)
			return 200, `{"action":"reject"}`
		}
		return 200, `{"action":"pass"}`
	}
	t.Run("a no-op without frames: true", func(t *testing.T) {
		up, guard := newUpstream(t, serve), newGuard(t, judge)
		r := newRig(t, guardedBy(up.URL, guard.URL, "", ofAnswers))
		if a := r.post(hi); a.body != event(frame(0), frame(1), frame(2), final) {
			t.Errorf("got %s", a.body)
		}
		if n := len(guard.seen()); n != 0 {
			t.Errorf("asked %d times", n)
		}
	})
	t.Run("frames: true", func(t *testing.T) {
		up, guard := newUpstream(t, serve), newGuard(t, judge)
		r := newRig(t, guardedBy(up.URL, guard.URL, "", "      frames: true\n"+ofAnswers))
		a := r.post(hi)
		if want := event(strings.Replace(frame(0), "ann", "***", 1), frame(2), final); a.body != want {
			t.Errorf("got %s\nwant %s", a.body, want)
		}
		if n := len(guard.seen()); n != 4 {
			t.Errorf("%d callouts, want 4", n)
		}
		var got []string
		for _, line := range r.all() {
			if line["kind"] == "frame" {
				got = append(got, fmt.Sprint(line["action"], " ", line["guardrail_name"], " ", line["guardrail_verdict"]))
			}
		}
		if s := strings.Join(got, ", "); s != "redact dlp mask, deny dlp reject, allow dlp pass, allow dlp pass" {
			t.Errorf("lines of frames: %s", s)
		}
	})
	t.Run("frames: true and the answer is rejected", func(t *testing.T) {
		up := newUpstream(t, serve)
		guard := newGuard(t, func(body string) (int, string) {
			if strings.Contains(body, "result") {
				return 500, ""
			}
			return 200, `{"action":"pass"}`
		})
		r := newRig(t, guardedBy(up.URL, guard.URL, "", "      frames: true\n"+ofAnswers))
		if a := r.post(hi); !strings.Contains(a.body, `"code":-32001`) || strings.Contains(a.body, `"content"`) {
			t.Errorf("got %s", a.body)
		}
		lines := r.all()
		last := lines[len(lines)-1]
		if last["kind"] != nil && last["kind"] != "request" || last["action"] != "deny" || last["error_kind"] != "guardrail_unreachable" || last["guardrail_name"] != "dlp" {
			t.Errorf("line %v", last)
		}
	})
}

// TestGuardrailReload: a reload closes every breaker, an invalid section changes nothing, and a
// call in flight keeps the configuration that it began with.
func TestGuardrailReload(t *testing.T) {
	up := newUpstream(t, echo)
	guard := newGuard(t, says(500, ``))
	r := newRig(t, guardedBy(up.URL, guard.URL, "    breaker: {failure_threshold: 2, open_duration: 5m}\n", ofCalls))
	for range 5 {
		r.post(mail)
	}
	if n := len(guard.seen()); n != 2 {
		t.Fatalf("%d callouts before the breaker opened, want 2", n)
	}
	for _, line := range r.lines(5)[2:] {
		if line["error_kind"] != "guardrail_unreachable" || line["guardrail_verdict"] != "error_failclosed" {
			t.Errorf("line of a skipped callout: %v", line)
		}
	}
	if n := strings.Count(r.logs.String(), "breaker opened"); n != 1 {
		t.Errorf("logged %d times, want once per open window", n)
	}

	r.edit("name: dlp", "name: DLP")
	if err := r.gateway.Reload(t.Context()); err == nil {
		t.Fatal("an invalid section was taken")
	}
	r.edit("name: DLP", "name: dlp")
	if r.post(mail); len(guard.seen()) != 2 {
		t.Error("a refused reload closed the breaker")
	}

	guard.answer(says(200, `{"action":"pass"}`))
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := r.post(mail); a.status != 200 {
		t.Errorf("after the reload: %d", a.status)
	}

	asked, release := make(chan struct{}), make(chan struct{})
	guard.answer(func(string) (int, string) {
		close(asked)
		<-release
		return 200, `{"action":"pass"}`
	})
	done := make(chan answer, 1)
	go func() { done <- r.post(mail) }()
	<-asked
	r.edit("      action: guardrail\n      guardrail: dlp\n", "      action: deny\n")
	if err := r.gateway.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(release)
	if a := <-done; a.status != 200 {
		t.Errorf("the call in flight: %d %s", a.status, a.body)
	}
	if a := r.post(mail); a.status != 403 {
		t.Errorf("after the second reload: %d", a.status)
	}
}
