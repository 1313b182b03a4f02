package verdict

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"svc/gateway/audit"
	"svc/gateway/auth"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/guardrail"
	"svc/gateway/policy/plane"
	"svc/gateway/redis"
	"svc/gateway/refusal"
)

const (
	toolCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lookup","arguments":{"q":"secret"}}}`
	toolText = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"secret"},` +
		`{"type":"resource","resource":{"uri":"ui://a","mimeType":"application/vnd.mcp-ui.remote-dom","text":"x"}}]}}`
)

// host counts the operations of a decision.
type host struct{ scored, waits int }

func (h *host) Policies() (*plane.Set, *refusal.Refusal) { return nil, nil }
func (h *host) Score(*mcp.Message)                       { h.scored++ }
func (h *host) BeforeWait()                              { h.waits++ }
func (h *host) Tokens(string) (t plane.Tokens)           { return t }

func scan(t *testing.T, text string) *mcp.Message {
	t.Helper()
	m := new(mcp.Message)
	if err := mcp.Scan([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// snapshotOf compiles one rule. The guardrail g is at url.
func snapshotOf(t *testing.T, url string, rule policy.RuleConfig) *Snapshot {
	t.Helper()
	rules, err := policy.Compile(policy.Config{Rules: []policy.RuleConfig{rule}})
	if err != nil {
		t.Fatal(err)
	}
	c := guardrail.Config{Name: "g", URL: url}
	c.SetDefaults()
	guards, err := guardrail.New([]guardrail.Config{c}, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guards.Close)
	return &Snapshot{Rules: policy.NewMemory(rules), Guards: guards}
}

// way is one of the three kinds of messages.
type way struct {
	name      string
	direction policy.Direction
	frame     bool
	text      string
}

var ways = []way{
	{"request", policy.ClientToServer, false, toolCall},
	{"answer", policy.ServerToClient, false, toolText},
	{"frame", policy.ServerToClient, true, toolText},
}

func inputOf(t *testing.T, s *Snapshot, w way, limits redis.Store, h Host) *Input {
	return &Input{
		Context: t.Context(), Snapshot: s, Direction: w.direction, Frame: w.frame,
		Caller: &auth.Principal{Kind: auth.KindKey, Value: "alice"}, Limits: limits, Now: time.Now, Host: h,
		Asked: scan(t, toolCall), HasAsked: true,
	}
}

// ruleOf is a rule with an action, for one direction.
func ruleOf(a policy.Action, d policy.Direction) policy.RuleConfig {
	direction, rate, burst, guard := d.String(), 0.001, 1, "g"
	c := policy.RuleConfig{ID: "r", Action: a.String(), When: &policy.When{Direction: &direction}}
	switch a {
	case policy.Redact:
		c.Redact = []policy.Substitution{{Regex: "secret", Replacement: "hidden"}}
	case policy.RateLimit:
		c.TokensPerSecond, c.Burst = &rate, &burst
	case policy.Guardrail:
		c.Guardrail, c.Frames = &guard, d == policy.ServerToClient
	}
	return c
}

// Each action of a rule is performed on requests, responses and frames. An
// unimplemented action denies, and fails this test.
func TestEveryActionIsPerformedOnEveryKindOfMessage(t *testing.T) {
	asked := 0
	passing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"action":"pass"}`))
	}))
	t.Cleanup(passing.Close)
	for a := range policy.ActionCount {
		for _, w := range ways {
			t.Run(a.String()+" of a "+w.name, func(t *testing.T) {
				asked = 0
				h, limits := &host{}, redis.NewMemory(0, time.Now())
				in := inputOf(t, snapshotOf(t, passing.URL, ruleOf(a, w.direction)), w, limits, h)
				m := scan(t, w.text)
				r := Judge(in, m)
				if refused := r.Refused != nil; refused != (a == policy.Deny) {
					t.Fatalf("refused %+v", r.Refused)
				}
				if r.Rule != "r" || r.Action == "" {
					t.Errorf("rule %q, action %q", r.Rule, r.Action)
				}
				if answers := w.direction == policy.ServerToClient; (h.scored == 1) != answers {
					t.Errorf("scored %d times", h.scored)
				}
				switch a {
				case policy.Redact:
					if strings.Contains(string(m.Body), "secret") || r.Action != audit.ActionRedact {
						t.Errorf("action %s of %s", r.Action, m.Body)
					}
				case policy.RateLimit:
					if again := Judge(in, scan(t, w.text)); again.Refused == nil || again.Action != audit.ActionRateLimitBlocked {
						t.Errorf("the second message: %+v", again)
					}
				case policy.StripApp:
					if w.direction == policy.ServerToClient && (r.Stripped != 1 || strings.Contains(string(m.Body), "mcp-ui")) {
						t.Errorf("stripped %d of %s", r.Stripped, m.Body)
					}
				case policy.Guardrail:
					if asked != 1 || r.Guardrail != "g" || r.Said.Verdict != guardrail.Pass || h.waits == 0 {
						t.Errorf("asked %d times: %+v", asked, r.Said)
					}
				}
			})
		}
	}
}

// The content type that an upstream chooses does not change the decision.
func TestAnAnswerAndAFrameAreJudgedAlike(t *testing.T) {
	for a := range policy.ActionCount {
		if a == policy.Guardrail {
			continue // a guardrail applies to frames only with frames: true
		}
		s := snapshotOf(t, "http://127.0.0.1:1/", ruleOf(a, policy.ServerToClient))
		var got [2]Result
		var bodies [2]string
		for i, w := range ways[1:] {
			m := scan(t, w.text)
			got[i] = Judge(inputOf(t, s, w, redis.NewMemory(0, time.Now()), &host{}), m)
			bodies[i] = string(m.Body)
		}
		if !reflect.DeepEqual(got[0], got[1]) || bodies[0] != bodies[1] {
			t.Errorf("%s: an answer is judged %+v (%s), a frame %+v (%s)", a, got[0], bodies[0], got[1], bodies[1])
		}
	}
}

// The strip_app of the request's rule applies to its response, for any rule of the
// response.
func TestTheAnswerIsStrippedForTheRuleOfItsRequest(t *testing.T) {
	for _, w := range ways[1:] {
		in := inputOf(t, snapshotOf(t, "http://127.0.0.1:1/", ruleOf(policy.Allow, policy.ServerToClient)), w, nil, &host{})
		in.Decided = policy.StripApp
		if r := Judge(in, scan(t, w.text)); r.Stripped != 1 || r.Action != audit.ActionStripApp {
			t.Errorf("%s: %+v", w.name, r)
		}
	}
}

// The audit line of a frame and that of a request get the same members from one
// result: each member that Note sets in an empty record is in both.
func TestOneResultMakesTheSameMembersInEveryLine(t *testing.T) {
	r := Result{
		Action: audit.ActionRedact, Rule: "r", Kind: "k", StripApplied: true, Stripped: 2, Task: "t",
		Guardrail: "g", Said: guardrail.Result{Verdict: guardrail.Mask, Latency: time.Second},
		Observed: []audit.Observed{{RuleID: "o", Action: audit.ActionDeny}},
		Governed: Governed{Score: 0.5, Entities: []string{"EMAIL"}, Fired: []*plane.Policy{{ID: "p", Name: "n"}}},
	}
	m := scan(t, toolText)
	frame, request := audit.Record{}, audit.Record{Action: audit.ActionAllow, RuleID: "up", Method: mcp.MethodToolsCall}
	r.NoteAnswer(&frame, policy.Allow, m)
	r.NoteAnswer(&request, policy.Allow, m)
	request.Method = ""
	if !reflect.DeepEqual(frame, request) {
		t.Errorf("a frame has %+v, a request %+v", frame, request)
	}
	if frame.Action != audit.ActionRedact || frame.RuleID != "r" || frame.GuardrailName != "g" || len(frame.PoliciesFired) != 1 ||
		frame.ErrorKind != "k" || frame.TaskHandle != "t" || frame.InjectionScore != 0.5 || len(frame.PIIDetected) != 1 || len(frame.Observed) != 1 || frame.Stripped != 2 {
		t.Errorf("%+v", frame)
	}
}
