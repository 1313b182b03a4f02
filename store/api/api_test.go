package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// names lists the JSON members of a type, embedded ones included.
func names(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			out = append(out, names(f.Type)...)
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			out = append(out, name)
		}
	}
	return out
}

// Each resource has the members of its table in the specification, and the
// additional members of this implementation.
func TestFieldNames(t *testing.T) {
	for _, test := range []struct {
		resource any
		want     string
		ours     string
	}{
		{Team{}, "id name description memberCount scopes createdAt", ""},
		{Member{}, "userId email role joinedAt", ""},
		{AgentItem{}, "id name description modelProvider modelName environment createdAt updatedAt", "teamId"},
		{Agent{}, "id name description modelProvider modelName environment configYaml createdAt updatedAt", "teamId"},
		{AgentCreated{}, "id name modelProvider modelName environment createdAt updatedAt", "teamId"},
		{AgentTool{}, "id agentId toolName callCount lastCalledAt", ""},
		{Deployment{}, "id agentId configYaml deployedBy deployedAt", ""},
		{Budget{}, "id name agentId agentName period limitUsd currentUsd percentUsed resetAt", "environment scope teamId teamName warnAt"},
		{SLATarget{}, "id name agentId agentName p99LatencyMs errorRatePercent evaluationPeriod currentP99Ms currentErrorRate status", ""},
		{SLAViolation{}, "id slaId slaName agentName periodStart periodEnd violationType targetP99Ms actualP99Ms targetErrorRate actualErrorRate", ""},
		{CostBreakdown{}, "period groupBy totalCostUsd data", ""},
		{CostEntry{}, "agentId agentName totalCostUsd inputTokens outputTokens traceCount avgCostPerTrace", "modelProvider modelName environment toolName ruleId clientName"},
		{Policy{}, "id name phase on condition action redactionStrategy enabled fireCount createdAt updatedAt", "enforcedBy message approval"},
		{Condition{}, "type threshold entities", "toolName arguments labelsAll labelsAny"},
		{PolicyTemplate{}, "id name description policyCount", ""},
		{TemplateApplied{}, "created policies", "warnings"},
		{KeyItem{}, "id name scope prefix createdBy createdByEmail lastUsedAt createdAt", "teamId sessionKeys"},
		{KeyCreated{}, "id name scope key prefix createdBy createdAt", "teamId"},
		{TraceItem{}, "id agentId agentName status environment sessionId modelProvider modelName inputTokens outputTokens costUsd durationMs injectionScore piiDetected policiesFired createdAt", "toolName blocked requestId principal client ruleId reason errorKind approval labels sets cacheReadTokens cacheCreationTokens"},
		{Trace{}, "id agentId agentName status environment sessionId modelProvider modelName inputTokens outputTokens costUsd durationMs injectionScore piiDetected policiesFired createdAt qualityScores spans", "toolName blocked requestId principal client ruleId reason errorKind approval labels sets cacheReadTokens cacheCreationTokens"},
		{StatsSummary{}, "totalTraces successCount errorCount errorRatePercent totalInputTokens totalOutputTokens totalCostUsd avgDurationMs p50DurationMs p95DurationMs p99DurationMs", "blockedCount failedCount"},
		{StatsPart{}, "totalTraces successCount errorCount errorRatePercent totalInputTokens totalOutputTokens totalCostUsd avgDurationMs p50DurationMs p95DurationMs p99DurationMs", "blockedCount failedCount from to"},
		{StatsGroup{}, "agentName traceCount totalCostUsd errorRatePercent avgDurationMs", "blockedCount failedCount agentId modelProvider modelName environment toolName ruleId clientName p50DurationMs p95DurationMs p99DurationMs"},
		{WebhookEvent{}, "type createdAt data", ""},
		{WebhookUser{}, "userId email displayName orgId", ""},
		{Error{}, "error details", ""},
		{Page[int]{}, "data total limit offset", "next totalIsLowerBound"},
		{List[int]{}, "data total", "next"},
		{Success{}, "success", "warnings"},
	} {
		ty := reflect.TypeOf(test.resource)
		t.Run(ty.Name(), func(t *testing.T) {
			want := append(strings.Fields(test.want), strings.Fields(test.ours)...)
			got := names(ty)
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
		})
	}
}

// Team scope values (13).
func TestTeamScopeValues(t *testing.T) {
	if len(TeamScopes) != 13 || len(slices.Compact(slices.Sorted(slices.Values(TeamScopes)))) != 13 {
		t.Errorf("scopes are %v", TeamScopes)
	}
}

func f64(f float64) *float64 { return &f }
func str(s string) *string   { return &s }

type validator interface{ Validate() map[string]string }

// The details of each request body: required fields, enums, ranges, lengths.
func TestValidate(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	for _, test := range []struct {
		name string
		body validator
		want string // fields in order; empty: valid
	}{
		{"team", &TeamCreate{Name: "a"}, ""},
		{"team without a name", &TeamCreate{}, "name"},
		{"team with a blank name", &TeamCreate{Name: " \t"}, "name"},
		{"team with a long name", &TeamCreate{Name: long}, "name"},
		{"team name of 200 characters of 4 bytes", &TeamCreate{Name: strings.Repeat("𝒜", MaxName)}, ""},
		{"team name with NUL", &TeamCreate{Name: "a\x00"}, "name"},
		{"team name not UTF-8", &TeamCreate{Name: "a\xff"}, "name"},
		{"team description with line breaks", &TeamCreate{Name: "a", Description: "b\nc"}, ""},
		{"team update of nothing", &TeamUpdate{}, ""},
		{"team update to no name", &TeamUpdate{Name: str("")}, "name"},
		{"scopes", &TeamScopesReplace{Scopes: TeamScopes}, ""},
		{"no scopes", &TeamScopesReplace{Scopes: []string{}}, ""},
		{"scopes missing", &TeamScopesReplace{}, "scopes"},
		{"unknown scope", &TeamScopesReplace{Scopes: []string{"agents:read", "agents:admin"}}, "scopes[1]"},
		{"scope twice", &TeamScopesReplace{Scopes: []string{"agents:read", "agents:read"}}, "scopes[1]"},
		{"member by id", &MemberAdd{UserID: "auth0|5f7c"}, ""},
		{"member by email", &MemberAdd{Email: "a@b.example", Role: "viewer"}, ""},
		{"member of nobody", &MemberAdd{}, "userId"},
		{"member with a bad email", &MemberAdd{Email: "a@@b"}, "email"},
		{"member with an unknown role", &MemberAdd{UserID: "u", Role: "king"}, "role"},
		{"removal of nobody", &MemberRemove{}, "userId"},

		{"agent", &AgentCreate{Name: "a", ConfigYAML: "a:\n\tb"}, ""},
		{"agent without a name", &AgentCreate{}, "name"},
		{"agent named *", &AgentCreate{Name: "*"}, "name"},
		{"agent with a large configuration", &AgentCreate{Name: "a", ConfigYAML: strings.Repeat("x", MaxConfigYAML+1)}, "configYaml"},
		{"agent with a two-line environment", &AgentCreate{Name: "a", Environment: "a\nb"}, "environment"},
		{"agent update", &AgentUpdate{Name: str("*"), ModelName: str(long)}, "modelName name"},

		{"budget", &BudgetCreate{Name: "a", AgentID: "g", Period: "daily", LimitUSD: f64(1)}, ""},
		{"budget: all four required", &BudgetCreate{}, "agentId limitUsd name period"},
		{"budget of nothing", &BudgetCreate{Name: "a", AgentID: "g", Period: "daily", LimitUSD: f64(0)}, "limitUsd"},
		{"budget of NaN", &BudgetCreate{Name: "a", AgentID: "g", Period: "daily", LimitUSD: f64(math.NaN())}, "limitUsd"},
		{"budget without end", &BudgetCreate{Name: "a", AgentID: "g", Period: "daily", LimitUSD: f64(math.Inf(1))}, "limitUsd"},
		{"budget of a year", &BudgetCreate{Name: "a", AgentID: "g", Period: "yearly", LimitUSD: f64(1)}, "period"},
		{"budget update", &BudgetUpdate{Period: str(""), LimitUSD: f64(-1)}, "limitUsd period"},

		{"SLA of latency", &SLACreate{Name: "a", AgentID: "g", EvaluationPeriod: "1h", P99LatencyMs: f64(5)}, ""},
		{"SLA of errors", &SLACreate{Name: "a", AgentID: "g", EvaluationPeriod: "30d", ErrorRatePercent: f64(0)}, ""},
		{"SLA without a target", &SLACreate{Name: "a", AgentID: "g", EvaluationPeriod: "1h"}, "p99LatencyMs"},
		{"SLA of nothing", &SLACreate{}, "agentId evaluationPeriod name p99LatencyMs"},
		{"SLA out of range", &SLACreate{Name: "a", AgentID: "g", EvaluationPeriod: "1d", P99LatencyMs: f64(0), ErrorRatePercent: f64(101)}, "errorRatePercent evaluationPeriod p99LatencyMs"},
		{"SLA update", &SLAUpdate{EvaluationPeriod: str("2h")}, "evaluationPeriod"},

		{"policy", &PolicyCreate{Name: "a", Phase: "request", Action: "block", Condition: &Condition{Type: "injection_score", Threshold: f64(0.5)}}, ""},
		{"policy without fields", &PolicyCreate{}, "action condition name phase"},
		{"redact without a strategy", &PolicyCreate{Name: "a", Phase: "response", Action: "redact", Condition: &Condition{Type: "pii_detected"}}, "redactionStrategy"},
		{"long message", &PolicyCreate{Name: "a", Phase: "request", Action: "block", Message: strings.Repeat("é", 513), Condition: &Condition{Type: "always"}}, "message"},
		{"message with a control character", &PolicyCreate{Name: "a", Phase: "request", Action: "block", Message: "a\x1b[31m", Condition: &Condition{Type: "always"}}, "message"},
		{"message with a bidirectional mark", &PolicyCreate{Name: "a", Phase: "request", Action: "block", Message: "a\u202eb", Condition: &Condition{Type: "always"}}, "message"},
		{"unknown strategy", &PolicyCreate{Name: "a", Phase: "response", Action: "redact", RedactionStrategy: "blur", Condition: &Condition{Type: "always"}}, "redactionStrategy"},
		{"unknown condition", &PolicyCreate{Name: "a", Phase: "request", Action: "warn", Condition: &Condition{Type: "mood"}}, "condition.type"},
		{"injection without a threshold", &PolicyCreate{Name: "a", Phase: "request", Action: "warn", Condition: &Condition{Type: "injection_score"}}, "condition.threshold"},
		{"threshold above 1", &PolicyCreate{Name: "a", Phase: "request", Action: "warn", Condition: &Condition{Type: "injection_score", Threshold: f64(1.1)}}, "condition.threshold"},
		{"threshold of another condition", &PolicyCreate{Name: "a", Phase: "request", Action: "warn", Condition: &Condition{Type: "always", Threshold: f64(1)}}, "condition.threshold"},
		{"entities", &PolicyCreate{Name: "a", Phase: "request", Action: "warn", Condition: &Condition{Type: "pii_detected", Entities: []string{"EMAIL", "e mail"}}}, "condition.entities[1]"},
		{"tool name without a glob", &PolicyCreate{Name: "a", Phase: "request", Action: "warn", Condition: &Condition{Type: "tool_name"}}, "condition.toolName"},
		{"tool name", &PolicyCreate{Name: "a", Phase: "request", Action: "warn", Condition: &Condition{Type: "tool_name", ToolName: "delete_*"}}, ""},
		{"budget exceeded", &PolicyCreate{Name: "a", Phase: "request", Action: "block", Condition: &Condition{Type: "budget_exceeded"}}, ""},
		{"policy update of nothing", &PolicyUpdate{}, ""},
		{"policy update", &PolicyUpdate{Phase: str("later"), Action: str(""), On: str("")}, "action on phase"},
		{"template", &TemplateApply{Template: "pii-protection"}, ""},
		{"no template", &TemplateApply{}, "template"},

		{"key", &KeyCreate{Name: "a", Scope: "ingest"}, ""},
		{"key of nothing", &KeyCreate{}, "name scope"},
		{"key of an unknown scope", &KeyCreate{Name: "a", Scope: "root"}, "scope"},
		{"key for a bad team", &KeyCreate{Name: "a", Scope: "api", TeamID: "../x"}, "teamId"},

		{"event", &WebhookEvent{Type: "user.created", CreatedAt: time.Unix(1, 0), Data: WebhookUser{UserID: "u"}}, ""},
		{"event of nothing", &WebhookEvent{}, "createdAt data.userId type"},
		{"event with a bad email", &WebhookEvent{Type: "t", CreatedAt: time.Unix(1, 0), Data: WebhookUser{UserID: "u", Email: "x"}}, "data.email"},

		{"tenant", &TenantCreate{Name: "a"}, ""},
		{"tenant of nothing", &TenantCreate{}, "name"},
		{"trace", &TraceInput{AgentName: "a", Status: "success"}, ""},
		{"trace of nothing", &TraceInput{}, "agentName status"},
		{"trace with NaN", &TraceInput{AgentName: "a", Status: "success", DurationMs: math.NaN(), InjectionScore: math.NaN(), CostUSD: f64(math.NaN())}, "costUsd durationMs injectionScore"},
		{"trace with an approval", &TraceInput{AgentName: "a", Status: "success", Approval: TraceApproval{Status: "granted", ID: "apr_1", By: "bob"}}, ""},
		{"trace with an approval without a status", &TraceInput{AgentName: "a", Status: "success", Approval: TraceApproval{ID: "a b", By: strings.Repeat("x", MaxName+1)}}, "approval.by approval.id approval.status"},
		{"trace with an unknown approval", &TraceInput{AgentName: "a", Status: "success", Approval: TraceApproval{Status: "maybe"}}, "approval.status"},
		{"trace with labels", &TraceInput{AgentName: "a", Status: "success", Labels: []string{"private", "a-1_b"}, Sets: []string{strings.Repeat("x", MaxLabel)}}, ""},
		{"trace with labels of other names", &TraceInput{AgentName: "a", Status: "success", Labels: []string{"ok", "Private", ""}, Sets: []string{strings.Repeat("x", MaxLabel+1), "1a", "a.b"}}, "labels[1] labels[2] sets[0] sets[1] sets[2]"},
		{"trace with many labels", &TraceInput{AgentName: "a", Status: "success", Labels: make([]string, MaxLabels+1)}, "labels"},
		{"batch missing", &TraceBatch{}, "traces"},
		{"batch empty", &TraceBatch{Traces: []TraceInput{}}, "traces"},
		{"batch too large", &TraceBatch{Traces: make([]TraceInput, MaxTraceBatch+1)}, "traces"},
		{"batch", &TraceBatch{Traces: []TraceInput{{AgentName: "a", Status: "error"}, {AgentName: "a"}}}, "traces[1].status"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.body.Validate()
			if fields := strings.Join(slices.Sorted(maps.Keys(got)), " "); fields != test.want {
				t.Errorf("got %v, want %q", got, test.want)
			}
			for field, message := range got {
				if message == "" {
					t.Errorf("%s has no message", field)
				}
			}
		})
	}
}

// The details of a batch with very many errors stay small.
func TestBatchDetailsAreBounded(t *testing.T) {
	b := TraceBatch{Traces: make([]TraceInput, MaxTraceBatch)}
	if n := len(b.Validate()); n < 100 || n > 110 {
		t.Errorf("%d entries", n)
	}
}

// Validating a valid trace allocates nothing.
func TestValidateAllocatesNothing(t *testing.T) {
	trace := TraceInput{ID: "a", AgentName: "planner", Status: "success", Environment: "production", CostUSD: f64(1),
		PIIDetected: []string{"EMAIL"}, PoliciesFired: []PolicyFired{{"p", "name", "warn"}},
		Spans: []Span{{"provider", 1}}, QualityScores: []QualityScore{{"s", 1}}}
	if n := testing.AllocsPerRun(100, func() {
		if trace.Validate() != nil {
			t.Error("not valid")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestValidEmail(t *testing.T) {
	for s, want := range map[string]bool{
		"a@b": true, "a.b+c@d.example": true, "ü@d.example": true,
		"": false, "a": false, "@b": false, "a@": false, "a@b@c": false, "a b@c": false, "a@.b": false, "a@b.": false, "a@b..c": false,
		"a\n@b": false, "<a@b>": false, strings.Repeat("a", 65) + "@b": false, "a@" + strings.Repeat("b", 260): false,
	} {
		if validEmail(s) != want {
			t.Errorf("ValidEmail(%q) is %v", s, !want)
		}
	}
}

// Timestamps are ISO 8601 in UTC; slices that are set are never null.
func TestEncoding(t *testing.T) {
	got, err := json.Marshal(Team{Scopes: []string{}, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	if want := `"scopes":[],"createdAt":"2026-01-02T03:04:05.006Z"`; !strings.Contains(string(got), want) {
		t.Errorf("got %s", got)
	}
	c, err := json.Marshal([]Condition{{Type: "always"}, {Type: "pii_detected", Entities: []string{}}})
	if err != nil || string(c) != `[{"type":"always"},{"type":"pii_detected","entities":[]}]` {
		t.Errorf("got %s, %v", c, err)
	}
}

// A trace from a client is either rejected with details or survives encoding
// and decoding unchanged.
func FuzzTraceInput(f *testing.F) {
	f.Add([]byte(`{"id":"a","agentName":"b","status":"success","costUsd":1.5,"createdAt":"2026-01-02T03:04:05Z","spans":[{"stage":"s","durationMs":1}]}`))
	f.Add([]byte(`{"agentName":"\u0000","status":"?","durationMs":-1e308}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in TraceInput
		if json.Unmarshal(data, &in) != nil || in.Validate() != nil {
			return
		}
		wire, err := json.Marshal(&in)
		if err != nil {
			t.Fatalf("a valid trace cannot be sent: %v", err)
		}
		var again TraceInput
		if err := json.Unmarshal(wire, &again); err != nil {
			t.Fatal(err)
		}
		if wrong := again.Validate(); wrong != nil {
			t.Fatalf("valid before, then %v: %s", wrong, wire)
		}
		if second, _ := json.Marshal(&again); string(second) != string(wire) {
			t.Fatalf("%s became %s", wire, second)
		}
	})
}

func ExampleTraceBatch_Validate() {
	b := TraceBatch{Traces: []TraceInput{{AgentName: "planner", Status: "success"}, {AgentName: "planner", Status: "odd"}}}
	fmt.Println(b.Validate())
	// Output: map[traces[1].status:must be one of success, error]
}
