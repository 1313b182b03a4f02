package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"svc/gateway/audit"
	"svc/gateway/refusal"
	"svc/server/api"
)

func TestWhichRequestsBecomeTraces(t *testing.T) {
	for _, row := range []struct {
		name    string
		methods []string
		change  func(*audit.Record)
		want    bool
	}{
		{"a tool call", nil, func(*audit.Record) {}, true},
		{"a listing", nil, func(r *audit.Record) { r.Method = "tools/list" }, true},
		{"a denied call", nil, func(r *audit.Record) { r.Action, r.Status = "deny", 403 }, true},
		{"ping", nil, func(r *audit.Record) { r.Method = "ping" }, false},
		{"a notification", nil, func(r *audit.Record) { r.RPC = audit.RPCNotification }, false},
		{"a client's answer", nil, func(r *audit.Record) { r.RPC, r.Method = audit.RPCResponse, "" }, false},
		{"turned away before it was read", nil, func(r *audit.Record) { r.RPC, r.Method = "", "" }, false},
		{"a frame", nil, func(r *audit.Record) { r.Kind = audit.KindFrame }, false},
		{"narrowed to tool calls: a tool call", []string{"tools/call"}, func(*audit.Record) {}, true},
		{"narrowed to tool calls: a listing", []string{"tools/call"}, func(r *audit.Record) { r.Method = "tools/list" }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			rec := call(id(1))
			rec.Kind = audit.KindRequest
			row.change(rec)
			m := mapper{Config{Traces: TracesConfig{Methods: row.methods}}}
			if got := m.wanted(rec); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTraceOfALine(t *testing.T) {
	cfg := Config{Environment: "staging", Agents: map[string]string{"ci": "builder"}}
	rec := call(id(1))
	rec.Session, rec.InjectionScore = "s1", 0.25
	rec.ClientName, rec.ClientVersion = "claude\ncode", strings.Repeat("é", 20)
	rec.PIIDetected = []string{"EMAIL", "not an entity"}
	rec.PoliciesFired = []audit.PolicyFired{{ID: "pol_1", Name: "pii", Action: "warn"}, {ID: "pol 2", Action: "warn"}}
	want := api.TraceInput{
		ID: id(1), AgentName: "builder", Status: "success", Environment: "staging", SessionID: "s1",
		DurationMs: 1.5, InjectionScore: 0.25, PIIDetected: []string{"EMAIL"},
		PoliciesFired: []api.PolicyFired{{ID: "pol_1", Name: "pii", Action: "warn"}},
		CreatedAt:     rec.Time, Spans: []api.Span{{Stage: "provider", DurationMs: 1}}, ToolName: "read_file",
		RequestID: id(1), Principal: "ci",
		Client: api.InputClient{TraceClient: api.TraceClient{Name: "claude\uFFFDcode", Version: strings.Repeat("é", 16)}},
	}
	m := mapper{cfg}
	if diff := cmp.Diff(want, m.trace(rec)); diff != "" {
		t.Error(diff)
	}
}

func TestAgentOfARequest(t *testing.T) {
	for _, row := range []struct {
		name string
		cfg  Config
		rec  audit.Record
		want string
	}{
		{"the agents map goes first", Config{Agent: "all", Agents: map[string]string{"ci": "builder"}}, audit.Record{Principal: "ci"}, "builder"},
		{"else the agent", Config{Agent: "all", Agents: map[string]string{"other": "x"}}, audit.Record{Principal: "ci"}, "all"},
		{"else the principal", Config{}, audit.Record{Principal: "ci"}, "ci"},
		{"the line's own agent is believed", Config{Agent: "all"}, audit.Record{Principal: "ci", Agent: "mine"}, "mine"},
		{"nobody", Config{}, audit.Record{}, unnamed},
		{"a name that means all agents", Config{}, audit.Record{Principal: api.AllAgents}, unnamed},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := mapper{row.cfg}
			if got := m.agent(&row.rec); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestStatusAndBlockedOfATrace(t *testing.T) {
	for _, row := range []struct {
		name    string
		rec     audit.Record
		status  string
		blocked bool
	}{
		{"allowed", audit.Record{Action: "allow", Status: 200}, "success", false},
		{"redacted", audit.Record{Action: "redact", RuleID: "r", Status: 200}, "success", false},
		{"denied by a rule", audit.Record{Action: "deny", RuleID: "r", Status: 403}, "error", true},
		{"denied by default", audit.Record{Action: "deny", RuleID: "default_deny", Status: 403}, "error", true},
		{"rate limited", audit.Record{Action: "rate_limit_blocked", RuleID: "r", Status: 429}, "error", true},
		{"what a policy redacts and cannot", audit.Record{Action: "deny", Status: 403, ErrorKind: "governance_redact_invalid", PoliciesFired: []audit.PolicyFired{{ID: "p", Action: "redact"}}}, "error", true},
		{"no policies ever known", audit.Record{Action: "deny", Status: 403, ErrorKind: "governance_unavailable"}, "error", false},
		{"a notification was blocked", audit.Record{Action: "allow", Status: 200, PoliciesFired: []audit.PolicyFired{{ID: "p", Action: "block"}}}, "success", false},
		{"blocked by a policy", audit.Record{Action: "deny", Status: 403, PoliciesFired: []audit.PolicyFired{{ID: "p", Action: "block"}}}, "error", true},
		{"warned by a policy", audit.Record{Action: "allow", Status: 200, PoliciesFired: []audit.PolicyFired{{ID: "p", Action: "warn"}}}, "success", false},
		{"refused before the decision", audit.Record{Action: "deny", ErrorKind: "unsupported_protocol_version", Status: 400}, "error", false},
		{"upstream unreachable", audit.Record{Action: "allow", ErrorKind: "upstream_unreachable", Status: 502}, "error", false},
		{"stream cut", audit.Record{Action: "allow", ErrorKind: "sse_truncated", Status: 200}, "error", false},
		{"the tool says error", audit.Record{Action: "allow", IsError: true, Status: 200}, "error", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := (&mapper{}).trace(&row.rec)
			if want := refusal.ReasonOf(row.rec.Action, row.rec.ErrorKind); got.Reason != want || got.RuleID != row.rec.RuleID || got.ErrorKind != row.rec.ErrorKind {
				t.Errorf("reason %q rule %q kind %q, want %q and those of the line", got.Reason, got.RuleID, got.ErrorKind, want)
			}
			if got.Status != row.status || got.Blocked != row.blocked {
				t.Errorf("status %s blocked %v, want %s %v", got.Status, got.Blocked, row.status, row.blocked)
			}
		})
	}
}

// For any content of a line, the control plane accepts its trace.
func TestTraceIsAlwaysValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just("*"), rapid.Just(strings.Repeat("ü", 300)),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		rec := audit.Record{
			Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Seq: rapid.Uint64().Draw(t, "seq"),
			RequestID: text.Draw(t, "id"), Principal: text.Draw(t, "principal"), Tool: text.Draw(t, "tool"),
			Session: text.Draw(t, "session"), Environment: text.Draw(t, "environment"), Agent: text.Draw(t, "agent"),
			Action: text.Draw(t, "action"), Duration: time.Duration(rapid.Int64().Draw(t, "duration")),
			InjectionScore: rapid.Float64().Draw(t, "score"),
			PIIDetected:    rapid.SliceOfN(text, 0, 40).Draw(t, "pii"),
			Spans:          []audit.Span{{Stage: text.Draw(t, "stage"), Duration: time.Duration(rapid.Int64().Draw(t, "span"))}},
			PoliciesFired:  []audit.PolicyFired{{ID: text.Draw(t, "pid"), Name: text.Draw(t, "pname"), Action: text.Draw(t, "paction")}},
		}
		got := (&mapper{}).trace(&rec)
		if d := got.Validate(); d != nil {
			t.Fatalf("%v: %+v", d, got)
		}
	})
}
