package request

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/base/background"
	"svc/gateway/mcp"
	"svc/gateway/policy"
	"svc/gateway/policy/flow"
	"svc/gateway/policy/plane"
	"svc/gateway/redis"
	"svc/gateway/refusal"
	"svc/gateway/request/multiplex"
	"svc/gateway/request/verdict"
	"svc/gateway/session"
	"svc/gateway/upstream"
)

// answersHost judges by rules alone, and stores the scored messages.
type answersHost struct{ scored []string }

func (h *answersHost) Policies() (*plane.Set, *refusal.Refusal) { return nil, nil }
func (h *answersHost) Score(m *mcp.Message)                     { h.scored = append(h.scored, string(m.Body)) }
func (h *answersHost) BeforeWait()                              {}
func (h *answersHost) Tokens(string) (t plane.Tokens)           { return t }

func scan(t *testing.T, text string) *mcp.Message {
	t.Helper()
	m := new(mcp.Message)
	if err := mcp.Scan([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// answersSite is two upstreams, and a rule that redacts a secret.
type answersSite struct {
	sessions *multiplex.Sessions
	moment   Moment
	host     *answersHost
}

func answersNewSite(t *testing.T) *answersSite {
	t.Helper()
	down := policy.ServerToClient.String()
	rules, err := policy.Compile(policy.Config{Rules: []policy.RuleConfig{
		{ID: "hide", Action: policy.Redact.String(), When: &policy.When{Direction: &down}, Redact: []policy.Substitution{{Regex: "secret", Replacement: "hidden"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := session.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	calls := background.New(slog.New(slog.DiscardHandler))
	t.Cleanup(calls.Stop)
	ups := map[string]*upstream.Upstream{"a": {Name: "a"}, "b": {Name: "b"}}
	s := &answersSite{host: new(answersHost), sessions: multiplex.Open(multiplex.Options{
		Upstreams: ups, Default: "a", Background: calls, Sealer: sealer, Logger: slog.New(slog.DiscardHandler),
	}, multiplex.StateOptions{Dir: t.TempDir(), MaxTasks: 10, TaskTTL: time.Hour, Now: time.Now})}
	t.Cleanup(func() { s.sessions.Close() })
	s.moment = Moment{Snapshot: &verdict.Snapshot{Rules: policy.NewMemory(rules)}, Host: s.host, Upstream: ups["b"]}
	return s
}

func (s *answersSite) request(t *testing.T, body string) *Answered {
	t.Helper()
	return &Answered{
		Input: verdict.Input{
			Context: t.Context(), Direction: policy.ServerToClient, Caller: &auth.Principal{Kind: auth.KindKey, Value: "alice"},
			Limits: redis.NewMemory(0, time.Now()), Now: time.Now, Asked: scan(t, body), HasAsked: true,
		},
		Method: "POST", Allowed: mcp.Allowed{mcp.Revision20250618}, Sessions: s.sessions,
	}
}

const answersCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}`

// A client receives the same message whether its upstream sends a whole answer or a frame.
func TestAnswersAndFramesAreTakenThroughTheSameSteps(t *testing.T) {
	for _, tt := range []struct{ name, asked, answer, want string }{
		{"an answer", answersCall, `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`, `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`},
		{"a secret", answersCall, `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"secret"}]}}`, `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"hidden"}]}}`},
		{"an error without an id", answersCall, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"x"}}`},
		{
			"revisions", `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`,
			`{"jsonrpc":"2.0","id":7,"result":{"supportedVersions":["2026-07-28","2025-06-18"]}}`,
			`{"jsonrpc":"2.0","id":7,"result":{"supportedVersions":["2025-06-18"]}}`,
		},
	} {
		s := answersNewSite(t)
		r := s.request(t, tt.asked)
		whole := r.Whole(s.moment, scan(t, tt.answer), upstream.Empty(200), nil)
		frame := r.Frame(s.moment, scan(t, tt.answer))
		if string(whole.Body) != tt.want || string(frame.Body) != tt.want {
			t.Errorf("%s: whole %s\nframe %s\nwant  %s", tt.name, whole.Body, frame.Body, tt.want)
		}
		if !whole.Final || !frame.Final || whole.Action != frame.Action || whole.Rule != frame.Rule {
			t.Errorf("%s: whole %+v, frame %+v", tt.name, whole.Result, frame.Result)
		}
		if len(s.host.scored) != 2 || s.host.scored[0] != s.host.scored[1] {
			t.Errorf("%s: scored %q", tt.name, s.host.scored)
		}
	}
}

// The upstream of a task is stored before its caller can send a request about it, in whatever
// form its upstream answered.
func TestTheUpstreamOfATaskIsRemembered(t *testing.T) {
	for i, take := range []func(*Answered, Moment, *mcp.Message) Taken{
		func(r *Answered, at Moment, m *mcp.Message) Taken {
			return r.Whole(at, m, upstream.Empty(200), nil)
		},
		func(r *Answered, at Moment, m *mcp.Message) Taken { return r.Frame(at, m) },
	} {
		s := answersNewSite(t)
		id := fmt.Sprintf("t%d", i)
		r := s.request(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","task":{}}}`)
		taken := take(r, s.moment, scan(t, `{"jsonrpc":"2.0","id":7,"result":{"task":{"taskId":"`+id+`","status":"working"}}}`))
		if taken.Task != id {
			t.Fatalf("task %q of %s", taken.Task, taken.Body)
		}
		asks := multiplex.Request{Sessions: s.sessions, Who: r.Input.Caller, Message: scan(t, `{"jsonrpc":"2.0","id":8,"method":"tasks/get","params":{"taskId":"`+id+`"}}`)}
		if up := asks.Follow(t.Context()); up == nil || up.Name != "b" {
			t.Errorf("requests about the task go to %v", up)
		}
	}
}

func TestADeniedMessageHasNoBody(t *testing.T) {
	s := answersNewSite(t)
	down := policy.ServerToClient.String()
	rules, err := policy.Compile(policy.Config{Rules: []policy.RuleConfig{{ID: "no", Action: policy.Deny.String(), When: &policy.When{Direction: &down}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.moment.Snapshot = &verdict.Snapshot{Rules: policy.NewMemory(rules)}
	r := s.request(t, answersCall)
	for name, got := range map[string]Taken{
		"whole": r.Whole(s.moment, scan(t, `{"jsonrpc":"2.0","id":7,"result":{}}`), upstream.Empty(200), nil),
		"frame": r.Frame(s.moment, scan(t, `{"jsonrpc":"2.0","id":7,"result":{}}`)),
	} {
		if got.Refused == nil || got.Body != nil || !got.Final || got.Rule != "no" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhichMessageIsTheAnswer(t *testing.T) {
	s := answersNewSite(t)
	for _, tt := range []struct {
		name, method, asked, m string
		want                   bool
	}{
		{"the id", "POST", answersCall, `{"jsonrpc":"2.0","id":7,"result":{}}`, true},
		{"the id, written otherwise", "POST", strings.Replace(answersCall, "7", `"a"`, 1), `{"jsonrpc":"2.0","id":"\u0061","result":{}}`, true},
		{"an error without an id", "POST", answersCall, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}`, true},
		{"another id", "POST", answersCall, `{"jsonrpc":"2.0","id":8,"result":{}}`, false},
		{"a request", "POST", answersCall, `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`, false},
		{"to a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","id":7,"result":{}}`, false},
		{"on a stream of its own", "GET", answersCall, `{"jsonrpc":"2.0","id":7,"result":{}}`, false},
	} {
		r := s.request(t, tt.asked)
		r.Method = tt.method
		if got := r.IsAnswer(scan(t, tt.m)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestWhatTakesThePlaceOfAWithheldMessage(t *testing.T) {
	const denial = `"reason":"policy_denied","request_id":"r1"`
	for _, tt := range []struct {
		name, m          string
		client, upstream bool
	}{
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/x"}`, false, false},
		{"a request of the server", `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`, false, true},
		{"an answer on a resumed stream", `{"jsonrpc":"2.0","id":7,"result":{}}`, true, false},
		{"an error without an id", `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}`, false, false},
	} {
		client, upstream := withheld(scan(t, tt.m), "r1")
		if strings.Contains(string(client), denial) != tt.client || strings.Contains(string(upstream), denial) != tt.upstream || !tt.client && client != nil || !tt.upstream && upstream != nil {
			t.Errorf("%s: client %s, upstream %s", tt.name, client, upstream)
		}
	}
}

// A message of a program that does not name its call sets the labels of each call of its caller, and the
// answer to its question belongs to a call that is not known. A server says to which call a message belongs.
func TestMessagesOfAProgramBelongToEachCall(t *testing.T) {
	tool := func(name string) *string { return &name }
	table, err := flow.Compile(&flow.Config{Labels: []flow.LabelConfig{{Name: "own", ToolName: tool("add")}, {Name: "web", ToolName: tool("web_get")}}})
	if err != nil {
		t.Fatal(err)
	}
	logged := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"read this"}}`
	asking := `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"read this"}}`
	for _, tt := range []struct {
		name, network, sent, want string
		known                     bool
	}{
		{"a log message of a program", "pipe", logged, "own web", true},
		{"a question of a program", "pipe", asking, "own web", false},
		{"progress of a program", "pipe", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"read this"}}`, "own", true},
		{"an answer of a program", "pipe", `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"read this"}]}}`, "own", true},
		{"a log message of a server", "tcp", logged, "own", true},
		{"a question of a server", "tcp", asking, "own", true},
	} {
		s := answersNewSite(t)
		r := s.request(t, answersCall)
		up := &upstream.Upstream{Name: "b", Network: tt.network}
		s.moment.Upstream, s.moment.Flow, r.Targets = up, table, map[string]*upstream.Upstream{"b": up}
		at := callsAt(up, r.Session, r.Input.Caller)
		s.sessions.Pend(at, session.Origin{Upstream: "b", Method: mcp.MethodToolsCall, Tool: "web_get"})(false)
		s.sessions.Pend(at, multiplex.OriginOf("b", r.Input.Asked))
		m := scan(t, tt.sent)
		if got := strings.Join(table.Names().In(r.Frame(s.moment, m).Sets), " "); got != tt.want {
			t.Errorf("%s sets %q, want %q", tt.name, got, tt.want)
		}
		if o, _ := r.origin("b", m); (o.Tool == "add") != tt.known {
			t.Errorf("%s belongs to %+v", tt.name, o)
		}
	}
}
