package audit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"svc/store/api"
)

func TestWhichRequestsBecomeTraces(t *testing.T) {
	for _, row := range []struct {
		name    string
		methods []string
		change  func(*Record)
		want    bool
	}{
		{"a tool call", nil, func(*Record) {}, true},
		{"a listing", nil, func(r *Record) { r.Method = "tools/list" }, true},
		{"a denied call", nil, func(r *Record) { r.Action, r.Status = "deny", 403 }, true},
		{"ping", nil, func(r *Record) { r.Method = "ping" }, false},
		{"a notification", nil, func(r *Record) { r.RPC = "notification" }, false},
		{"a client's answer", nil, func(r *Record) { r.RPC, r.Method = RPCResponse, "" }, false},
		{"turned away before it was read", nil, func(r *Record) { r.RPC, r.Method = "", "" }, false},
		{"a frame", nil, func(r *Record) { r.Kind = KindFrame }, false},
		{"narrowed to tool calls: a tool call", []string{"tools/call"}, func(*Record) {}, true},
		{"narrowed to tool calls: a listing", []string{"tools/call"}, func(r *Record) { r.Method = "tools/list" }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			rec := call(id(1))
			rec.Kind = KindRequest
			row.change(rec)
			m := mapper{listenEnded: closed, reason: reasonOf, cfg: ControlPlaneConfig{Traces: TracesConfig{Methods: row.methods}}}
			if got := m.wanted(rec); got != row.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTraceOfALine(t *testing.T) {
	cfg := ControlPlaneConfig{Environment: "staging", Agents: map[string]string{"ci": "builder"}}
	rec := call(id(1))
	rec.Session, rec.InjectionScore = "s1", 0.25
	rec.ClientName, rec.ClientVersion = "claude\ncode", strings.Repeat("é", 20)
	rec.PIIDetected = []string{"EMAIL", "not an entity"}
	rec.PoliciesFired = []PolicyFired{{ID: "pol_1", Name: "pii", Action: "warn"}, {ID: "pol 2", Action: "warn"}}
	want := api.TraceInput{
		ID: id(1), AgentName: "builder", Status: "success", Environment: "staging", SessionID: "s1",
		DurationMs: 1.5, InjectionScore: 0.25, PIIDetected: []string{"EMAIL"},
		PoliciesFired: []api.PolicyFired{{ID: "pol_1", Name: "pii", Action: "warn"}},
		CreatedAt:     rec.Time, Spans: []api.Span{{Stage: "provider", DurationMs: 1}}, ToolName: "read_file",
		RequestID: id(1), Principal: "ci",
		Client: api.TraceClient{Name: "claude\uFFFDcode", Version: strings.Repeat("é", 16)},
	}
	m := mapper{cfg, reasonOf, closed}
	if diff := cmp.Diff(want, m.trace(rec)); diff != "" {
		t.Error(diff)
	}
}

// A trace names the approval of its call, and no id that is not one.
func TestApprovalOfATrace(t *testing.T) {
	for id, want := range map[string]string{"apr_1": "apr_1", "no id": "", "": ""} {
		m := mapper{reason: func(_, _ string) string { return "" }, listenEnded: func(*Record) bool { return false }}
		got := m.trace(&Record{RequestID: "r", Approval: "granted", ApprovalID: id, ApprovedBy: "usr_1"}).Approval
		if got != (api.TraceApproval{Status: "granted", ID: want, By: "usr_1"}) {
			t.Errorf("%q: %+v", id, got)
		}
	}
	m := mapper{reason: func(_, _ string) string { return "" }, listenEnded: func(*Record) bool { return false }}
	if got := m.trace(&Record{RequestID: "r", Approval: "maybe", ApprovalID: "apr_1"}).Approval; got != (api.TraceApproval{}) {
		t.Errorf("an unknown outcome: %+v", got) // the control plane would refuse the trace
	}
}

// A trace has the labels of its line that a label can be named: the control plane would refuse the
// trace for any other.
func TestLabelsOfATrace(t *testing.T) {
	m := mapper{reason: func(_, _ string) string { return "" }, listenEnded: func(*Record) bool { return false }}
	got := m.trace(&Record{RequestID: "r", Status: 200, Labels: []string{"private", "No name", "untrusted"}, Sets: []string{"1", ""}})
	if !slices.Equal(got.Labels, []string{"private", "untrusted"}) || got.Sets != nil {
		t.Errorf("labels %q, sets %q", got.Labels, got.Sets)
	}
	if wrong := got.Validate(); wrong != nil {
		t.Error(wrong)
	}
}

func TestAgentOfARequest(t *testing.T) {
	for _, row := range []struct {
		name string
		cfg  ControlPlaneConfig
		rec  Record
		want string
	}{
		{"the agents map goes first", ControlPlaneConfig{Agent: "all", Agents: map[string]string{"ci": "builder"}}, Record{Principal: "ci"}, "builder"},
		{"else the agent", ControlPlaneConfig{Agent: "all", Agents: map[string]string{"other": "x"}}, Record{Principal: "ci"}, "all"},
		{"else the principal", ControlPlaneConfig{}, Record{Principal: "ci"}, "ci"},
		{"the line's own agent is accepted", ControlPlaneConfig{Agent: "all"}, Record{Principal: "ci", Agent: "mine"}, "mine"},
		{"nobody", ControlPlaneConfig{}, Record{}, unnamed},
		{"a name that means all agents", ControlPlaneConfig{}, Record{Principal: api.AllAgents}, unnamed},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := mapper{row.cfg, reasonOf, closed}
			if got := m.agent(&row.rec); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestStatusAndBlockedOfATrace(t *testing.T) {
	for _, row := range []struct {
		name    string
		rec     Record
		status  string
		blocked bool
	}{
		{"allowed", Record{Action: "allow", Status: 200}, "success", false},
		{"redacted", Record{Action: "redact", RuleID: "r", Status: 200}, "success", false},
		{"denied by a rule", Record{Action: "deny", RuleID: "r", Status: 403}, "error", true},
		{"denied by default", Record{Action: "deny", RuleID: "default_deny", Status: 403}, "error", true},
		{"rate limited", Record{Action: "rate_limit_blocked", RuleID: "r", Status: 429}, "error", true},
		{"what a policy redacts and cannot", Record{Action: "deny", Status: 403, ErrorKind: "governance_redact_invalid", PoliciesFired: []PolicyFired{{ID: "p", Action: "redact"}}}, "error", true},
		{"no policies ever known", Record{Action: "deny", Status: 403, ErrorKind: "governance_unavailable"}, "error", false},
		{"a notification was blocked", Record{Action: "allow", Status: 200, PoliciesFired: []PolicyFired{{ID: "p", Action: "block"}}}, "success", false},
		{"blocked by a policy", Record{Action: "deny", Status: 403, PoliciesFired: []PolicyFired{{ID: "p", Action: "block"}}}, "error", true},
		{"warned by a policy", Record{Action: "allow", Status: 200, PoliciesFired: []PolicyFired{{ID: "p", Action: "warn"}}}, "success", false},
		{"refused before the decision", Record{Action: "deny", ErrorKind: "unsupported_protocol_version", Status: 400}, "error", false},
		{"upstream unreachable", Record{Action: "allow", ErrorKind: "upstream_unreachable", Status: 502}, "error", false},
		{"stream cut", Record{Action: "allow", ErrorKind: "sse_truncated", Status: 200}, "error", false},
		{"the tool says error", Record{Action: "allow", IsError: true, Status: 200}, "error", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := (&mapper{listenEnded: closed, reason: reasonOf}).trace(&row.rec)
			if want := reasonOf(row.rec.Action, row.rec.ErrorKind); got.Reason != want || got.RuleID != row.rec.RuleID || got.ErrorKind != row.rec.ErrorKind {
				t.Errorf("reason %q rule %q kind %q, want %q and those of the line", got.Reason, got.RuleID, got.ErrorKind, want)
			}
			if got.Status != row.status || got.Blocked != row.blocked {
				t.Errorf("status %s blocked %v, want %s %v", got.Status, got.Blocked, row.status, row.blocked)
			}
		})
	}
}

// A stream that was opened to listen has the duration of its opening, which is its latency; its open
// time is a span. It is an error when it did not end as such streams do.
func TestTraceOfAStreamThatListens(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Record)
		status string
	}{
		{"closed by the client", func(r *Record) { r.ErrorKind = "client_closed" }, "success"},
		{"ended by the server", func(*Record) {}, "success"},
		{"cut by the server", func(r *Record) { r.ErrorKind = "sse_truncated" }, "error"},
		{"ended with an error", func(r *Record) { r.IsError = true }, "error"},
		{"refused", func(r *Record) { r.Action, r.Status = "deny", 403 }, "error"},
	} {
		rec := call(id(1))
		rec.Kind, rec.Method, rec.Tool = KindRequest, "subscriptions/listen", ""
		rec.Duration = 2*time.Hour + 5*time.Millisecond
		rec.Spans = append(rec.Spans, Span{Stage: StageListening, Duration: 2 * time.Hour})
		row.change(rec)
		got := (&mapper{listenEnded: closed, reason: reasonOf}).trace(rec)
		if got.Status != row.status || got.DurationMs != 5 || got.ErrorKind != rec.ErrorKind || len(got.Spans) != 2 || got.Spans[1] != (api.Span{Stage: "listening", DurationMs: 7_200_000}) {
			t.Errorf("%s: %+v", row.name, got)
		}
	}
}

// For any content of a line, the control plane accepts its trace.
func TestTraceIsAlwaysValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just("*"), rapid.Just(strings.Repeat("ü", 300)),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		rec := Record{
			Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Seq: rapid.Uint64().Draw(t, "seq"),
			RequestID: text.Draw(t, "id"), Principal: text.Draw(t, "principal"), Tool: text.Draw(t, "tool"),
			Session: text.Draw(t, "session"), Environment: text.Draw(t, "environment"), Agent: text.Draw(t, "agent"),
			Action: text.Draw(t, "action"), Duration: time.Duration(rapid.Int64().Draw(t, "duration")),
			InjectionScore: rapid.Float64().Draw(t, "score"),
			PIIDetected:    rapid.SliceOfN(text, 0, 40).Draw(t, "pii"),
			Spans:          []Span{{Stage: text.Draw(t, "stage"), Duration: time.Duration(rapid.Int64().Draw(t, "span"))}},
			PoliciesFired:  []PolicyFired{{ID: text.Draw(t, "pid"), Name: text.Draw(t, "pname"), Action: text.Draw(t, "paction")}},
		}
		got := (&mapper{listenEnded: closed, reason: reasonOf}).trace(&rec)
		if d := got.Validate(); d != nil {
			t.Fatalf("%v: %+v", d, got)
		}
	})
}

// reasonOf stands for the table of refusals.
func reasonOf(action, kind string) string {
	if kind == "" && (action == ActionDeny || action == ActionRateLimitBlocked) {
		return "denied"
	}
	return kind
}
