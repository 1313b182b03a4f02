package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"svc/server/client"
	"svc/store/api"
	"svc/tui"
)

// moment is the time of everything in a recording.
var moment = time.Date(2026, 11, 2, 14, 32, 10, 0, time.UTC)

// dice is a small pseudo-random generator with the same numbers on every
// machine.
type dice uint64

func (d *dice) next() float64 {
	*d = *d*6364136223846793005 + 1442695040888963407
	return float64(*d>>11) / (1 << 53)
}

func (d *dice) pick(all []string) string { return all[int(d.next()*float64(len(all)))] }

type agent struct {
	id, name, env, provider, model string
	tools                          []string
}

var agents = []agent{
	{"agt_01k6r0support", "support-bot", "production", "anthropic", "claude-sonnet", []string{"search_orders", "get_customer", "refund_order", "send_email"}},
	{"agt_01k6r0billing", "billing-agent", "production", "openai", "gpt-mini", []string{"get_invoice", "refund_order", "delete_customer", "run_sales_report"}},
	{"agt_01k6r0research", "research-crew", "staging", "openai", "gpt-large", []string{"web_search", "read_file", "run_query", "summarize"}},
	{"agt_01k6r0deploy", "deploy-helper", "production", "anthropic", "claude-haiku", []string{"list_pods", "read_logs", "restart_service"}},
}

// Traces returns n traces that end just before moment, oldest first.
func Traces(n int) []tui.Event {
	d := dice(7)
	events := make([]tui.Event, n)
	for i := range events {
		a := agents[int(d.next()*d.next()*4)]
		tool := d.pick(a.tools)
		ms := 20 + 900*d.next()*d.next()*d.next()
		at := moment.Add(-time.Duration(n-i) * 700 * time.Millisecond).Add(time.Duration(d.next()*300) * time.Millisecond)
		t := api.Trace{TraceItem: api.TraceItem{
			ID: fmt.Sprintf("019a44c%x-7b2%x-7%03x-9d1e-%012x", i%16, i/16%16, i, i*7919), AgentID: a.id, AgentName: a.name, Status: "success", Environment: a.env,
			SessionID: fmt.Sprintf("ses_%04x", 0xa3c0+i/9), ModelProvider: a.provider, ModelName: a.model, ToolName: tool,
			InputTokens: int64(300 + 5000*d.next()), OutputTokens: int64(40 + 700*d.next()), CostUSD: 0.0008 + 0.04*d.next()*d.next(),
			DurationMs: float64(int(ms*10)) / 10, InjectionScore: float64(int(100*d.next()*d.next()*d.next()*d.next())) / 100, CreatedAt: at,
		}}
		switch x := d.next(); {
		case tool == "delete_customer":
			t.Status, t.Blocked, t.DurationMs = "error", true, 0.9
			t.PoliciesFired = []api.PolicyFired{{ID: "pol_01k6r0nodelete", Name: "no-deletes", Action: "block"}}
			t.Labels = []string{"private", "untrusted"}
		case x > 0.965:
			t.Status = "error"
		case tool == "search_orders":
			t.Sets = []string{"private"}
		case x > 0.90 && tool == "send_email":
			t.PIIDetected = []string{"EMAIL", "PHONE"}
			t.PoliciesFired = []api.PolicyFired{{ID: "pol_01k6r0pii", Name: "mask-personal-data", Action: "redact"}}
		}
		events[i] = tui.Event{ID: fmt.Sprint(i + 1), Trace: t}
	}
	return events
}

// Plane responds like a control plane that has been in use for a while. Err
// makes every request fail; Refuse makes changes fail as for a key that may
// only read; Warnings are those of the response to a change of a policy.
type Plane struct {
	Err      error
	Refuse   bool
	Empty    bool
	Warnings []string
	Merged   int // how often reasons were added to approvals

	disabled map[string]bool
	decided  map[string]api.ApprovalDecided
}

// GetTrace returns a trace with spans.
func (p *Plane) GetTrace(_ context.Context, id string) (api.Trace, error) {
	if p.Err != nil {
		return api.Trace{}, p.Err
	}
	for _, ev := range Traces(traceCount) {
		if t := ev.Trace; t.ID == id {
			ms := t.DurationMs
			t.Spans = []api.Span{{Stage: "authenticate", DurationMs: 0.2}, {Stage: "policy_eval", DurationMs: 0.02 * ms}, {Stage: "pii_scan", DurationMs: 0.06 * ms}}
			if !t.Blocked {
				t.Spans = append(t.Spans, api.Span{Stage: "provider", DurationMs: 0.8 * ms}, api.Span{Stage: "pii_scan", DurationMs: 0.04 * ms})
			}
			t.QualityScores = []api.QualityScore{{Scorer: "helpfulness", Score: 0.91}}
			return t, nil
		}
	}
	return api.Trace{}, &client.Error{Status: 404, Message: "trace not found"}
}

// Alive answers at once.
func (p *Plane) Alive(context.Context) error { return nil }

// older is the number of traces before those of a recording.
const older = 250

// ListTraces returns the traces of a period, newest first. Of the filter it knows only that and the request.
func (p *Plane) ListTraces(_ context.Context, q client.TraceQuery) (out api.Page[api.TraceItem], err error) {
	if p.Err != nil || p.Empty {
		return out, p.Err
	}
	all := Traces(older)
	for i := range all {
		t := &all[i].Trace
		t.ID, t.CreatedAt = "0199"+t.ID[4:], t.CreatedAt.Add(-traceCount*700*time.Millisecond)
	}
	all = append(all, Traces(traceCount)...)
	last, err := strconv.Atoi(cmp.Or(q.After, strconv.Itoa(len(all))))
	for i, ev := range slices.Backward(all[:last]) {
		t := ev.Trace.TraceItem
		if !q.End.IsZero() && t.CreatedAt.After(q.End) || t.CreatedAt.Before(q.Start) || q.RequestID != "" && q.RequestID != t.RequestID {
			continue
		}
		if len(out.Data) == q.Limit {
			out.Next = strconv.Itoa(i + 1)
			break
		}
		out.Data = append(out.Data, t)
	}
	return out, err
}

// traceCount is the number of traces in a recording.
const traceCount = 400

// TraceStats returns the statistics of a day.
func (p *Plane) TraceStats(_ context.Context, q client.StatsQuery) (api.TraceStats, error) {
	if p.Err != nil || p.Empty {
		return api.TraceStats{Period: q.Period, Groups: []api.StatsGroup{}}, p.Err
	}
	s := api.TraceStats{Period: q.Period, Summary: api.StatsSummary{
		TotalTraces: 48213, SuccessCount: 46420, ErrorCount: 1793, BlockedCount: 1312, FailedCount: 481, ErrorRatePercent: 3.72, TotalInputTokens: 128_400_000, TotalOutputTokens: 17_900_000,
		TotalCostUSD: 612.44, AvgDurationMs: 184.2, P50DurationMs: 96.4, P95DurationMs: 612.8, P99DurationMs: 1408.1,
	}}
	for i, g := range []struct {
		n    int64
		cost float64
		rate float64
		ms   float64
	}{{21904, 301.20, 0.8, 142}, {13377, 120.71, 9.6, 96}, {9120, 171.03, 1.4, 388}, {3812, 19.50, 0, 61}} {
		a := agents[i]
		group := api.StatsGroup{TraceCount: g.n, TotalCostUSD: g.cost, ErrorRatePercent: g.rate, AvgDurationMs: g.ms,
			P50DurationMs: 0.6 * g.ms, P95DurationMs: 3.1 * g.ms, P99DurationMs: 6.7 * g.ms}
		switch q.GroupBy {
		case "model":
			group.ModelProvider, group.ModelName = &a.provider, &a.model
		case "environment":
			group.Environment = &a.env
		default:
			group.AgentID, group.AgentName = &a.id, &a.name
		}
		s.Groups = append(s.Groups, group)
	}
	return s, nil
}

// ListAgents returns four agents, one of them without traces.
func (p *Plane) ListAgents(context.Context, client.AgentQuery) (api.Page[api.AgentItem], error) {
	if p.Err != nil || p.Empty {
		return api.Page[api.AgentItem]{}, p.Err
	}
	var out api.Page[api.AgentItem]
	for i, a := range agents {
		out.Data = append(out.Data, api.AgentItem{ID: a.id, Name: a.name, Environment: a.env, ModelProvider: a.provider, ModelName: a.model,
			CreatedAt: moment.AddDate(0, -2, i), UpdatedAt: moment.AddDate(0, 0, -i)})
	}
	out.Data[0].Description = "Answers customers, looks up orders, refunds up to 50 euros"
	out.Data = append(out.Data, api.AgentItem{ID: "agt_01k6r0night", Name: "night-audit", Environment: "staging", CreatedAt: moment.AddDate(0, 0, -1), UpdatedAt: moment.AddDate(0, 0, -1)})
	out.Total = len(out.Data)
	return out, nil
}

// ListAgentTools returns the tools of an agent.
func (p *Plane) ListAgentTools(_ context.Context, id string, _ client.Page) (api.Page[api.AgentTool], error) {
	if p.Err != nil {
		return api.Page[api.AgentTool]{}, p.Err
	}
	var out api.Page[api.AgentTool]
	for _, a := range agents {
		for i, tool := range a.tools {
			if a.id == id {
				out.Data = append(out.Data, api.AgentTool{AgentID: id, ToolName: tool, CallCount: int64(9120 / (i + 1)), LastCalledAt: moment.Add(-time.Duration(i*i) * time.Minute)})
			}
		}
	}
	return out, nil
}

// ListPolicies returns policies of every kind.
func (p *Plane) ListPolicies(context.Context, client.PolicyQuery) (api.Page[api.Policy], error) {
	if p.Err != nil || p.Empty {
		return api.Page[api.Policy]{}, p.Err
	}
	threshold := 0.85
	changed := moment.AddDate(0, 0, -3)
	all := []api.Policy{
		{ID: "pol_01k6r0nodelete", Name: "no-deletes", Phase: "request", On: "*", Condition: api.Condition{Type: "tool_name", ToolName: "delete_*"}, Action: "block", Enabled: true, FireCount: 1284},
		{ID: "pol_01k6r0pii", Name: "mask-personal-data", Phase: "response", On: "support-bot", Condition: api.Condition{Type: "pii_detected", Entities: []string{"EMAIL", "PHONE"}}, Action: "redact", RedactionStrategy: "mask", Enabled: true, FireCount: 677},
		{ID: "pol_01k6r0inject", Name: "prompt-injection", Phase: "request", On: "*", Condition: api.Condition{Type: "injection_score", Threshold: &threshold}, Action: "block", Enabled: true, FireCount: 12},
		{ID: "pol_01k6r0budget", Name: "stop-at-budget", Phase: "request", On: "research-crew", Condition: api.Condition{Type: "budget_exceeded"}, Action: "block", Enabled: false},
		{ID: "pol_01k6r0watch", Name: "watch-everything", Phase: "response", On: "*", Condition: api.Condition{Type: "always"}, Action: "warn", Enabled: false, FireCount: 31},
	}
	for i := range all {
		all[i].Enabled = all[i].Enabled != p.disabled[all[i].ID]
		all[i].CreatedAt, all[i].UpdatedAt = changed, changed
	}
	return api.Page[api.Policy]{Data: all, Total: len(all)}, nil
}

// UpdatePolicy enables or disables a policy.
func (p *Plane) UpdatePolicy(_ context.Context, id string, in api.PolicyUpdate) (api.Policy, error) {
	switch {
	case p.Err != nil:
		return api.Policy{}, p.Err
	case p.Refuse:
		return api.Policy{}, &client.Error{Status: 403, Message: "insufficient permission"}
	case in.Enabled == nil:
		return api.Policy{}, errors.New("nothing to change")
	}
	if p.disabled == nil {
		p.disabled = map[string]bool{}
	}
	p.disabled[id] = !p.disabled[id]
	return api.Policy{ID: id, Enabled: *in.Enabled, Warnings: p.Warnings}, nil
}

// ListBudgets returns budgets that are within, nearly used and over.
func (p *Plane) ListBudgets(context.Context) (api.List[api.Budget], error) {
	if p.Err != nil || p.Empty {
		return api.List[api.Budget]{}, p.Err
	}
	day, teamID, teamName := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC), "tea_01k6r01", "platform"
	return api.List[api.Budget]{Data: []api.Budget{
		{ID: "bud_01k6r01", Name: "support-month", Scope: "agent", AgentID: &agents[0].id, AgentName: &agents[0].name, Period: "monthly", LimitUSD: 4000, CurrentUSD: 1204.8, PercentUsed: 30.12, ResetAt: day.AddDate(0, 1, -2)},
		{ID: "bud_01k6r02", Name: "billing-week", Scope: "agent", AgentID: &agents[1].id, AgentName: &agents[1].name, Period: "weekly", LimitUSD: 250, CurrentUSD: 221.5, PercentUsed: 88.6, ResetAt: day.AddDate(0, 0, 6)},
		{ID: "bud_01k6r03", Name: "research-day", Scope: "agent", AgentID: &agents[2].id, AgentName: &agents[2].name, Period: "daily", LimitUSD: 150, CurrentUSD: 171.03, PercentUsed: 114.02, ResetAt: day},
		{ID: "bud_01k6r04", Name: "platform-day", Scope: "team", TeamID: &teamID, TeamName: &teamName, Period: "daily", LimitUSD: 0.5, CurrentUSD: 0.0031, PercentUsed: 0.62, ResetAt: day},
	}, Total: 4}, nil
}

// ListSLAs returns a target in every state.
func (p *Plane) ListSLAs(context.Context) (api.List[api.SLATarget], error) {
	if p.Err != nil || p.Empty {
		return api.List[api.SLATarget]{}, p.Err
	}
	ms, rate := func(v float64) *float64 { return &v }, func(v float64) *float64 { return &v }
	return api.List[api.SLATarget]{Data: []api.SLATarget{
		{ID: "sla_01k6r01", Name: "support-fast", AgentID: agents[0].id, AgentName: agents[0].name, P99LatencyMs: ms(1500), ErrorRatePercent: rate(2), EvaluationPeriod: "24h", CurrentP99Ms: 951, CurrentErrorRate: 0.8, Status: "healthy"},
		{ID: "sla_01k6r02", Name: "billing-right", AgentID: agents[1].id, AgentName: agents[1].name, ErrorRatePercent: rate(5), EvaluationPeriod: "24h", CurrentP99Ms: 640, CurrentErrorRate: 9.6, Status: "breached"},
		{ID: "sla_01k6r03", Name: "research-p99", AgentID: agents[2].id, AgentName: agents[2].name, P99LatencyMs: ms(2700), EvaluationPeriod: "7d", CurrentP99Ms: 2600, CurrentErrorRate: 1.4, Status: "at_risk"},
		{ID: "sla_01k6r04", Name: "night-runs", AgentID: "agt_01k6r0night", AgentName: "night-audit", P99LatencyMs: ms(10_000), EvaluationPeriod: "30d", Status: "no_data"},
	}, Total: 4}, nil
}

// ListViolations returns two violations.
func (p *Plane) ListViolations(context.Context, client.ViolationQuery) (api.List[api.SLAViolation], error) {
	if p.Err != nil || p.Empty {
		return api.List[api.SLAViolation]{}, p.Err
	}
	five, p99 := 5.0, 2700.0
	return api.List[api.SLAViolation]{Data: []api.SLAViolation{
		{ID: "vio_1", SLAName: "billing-right", AgentName: agents[1].name, PeriodStart: moment.Add(-25 * time.Hour), PeriodEnd: moment.Add(-time.Hour), ViolationType: "error_rate", TargetErrorRate: &five, ActualErrorRate: 8.9},
		{ID: "vio_2", SLAName: "research-p99", AgentName: agents[2].name, PeriodStart: moment.Add(-9 * 24 * time.Hour), PeriodEnd: moment.Add(-2 * 24 * time.Hour), ViolationType: "latency", TargetP99Ms: &p99, ActualP99Ms: 3012},
	}, Total: 2}, nil
}

// approvals are approvals with every status but expired.
func (p *Plane) approvals() []api.ApprovalRecord {
	at := func(ago time.Duration) time.Time { return moment.Add(-ago) }
	ends := at(-23 * time.Hour)
	all := []api.ApprovalRecord{
		{ID: "apr_01k6r0refund", Status: api.ApprovalPending, CreatedAt: at(4 * time.Minute), Tool: "refund_order", AgentName: agents[0].name, Principal: "oauth:ada@example.com",
			Client: "claude-code 2.1", SelfCheck: "known", Reasons: []api.ApprovalReason{{RuleID: "large-refunds", Note: "Above 200 dollars: look at the order first."}, {PolicyID: "pol_01k6r0nodelete"}},
			Arguments: []api.ApprovalArgument{{Pointer: "/orderId", Value: `"O-5008"`}, {Pointer: "/amount", Value: "450"}, {Pointer: "/to", Value: `"ada.brandt@example.com"`, Restored: "EMAIL"},
				{Pointer: "/reason", Value: `"late, \u202e  and with two blanks, ` + strings.Repeat("a long story ", 8) + `… the end"`, Omitted: 812}}, ArgumentsBytes: 1204, Truncated: true},
		{ID: "apr_01k6r0restart", Status: api.ApprovalPending, CreatedAt: at(31 * time.Minute), Tool: "restart_service", AgentName: agents[3].name, Principal: "key:deploy",
			SelfCheck: "unknown", Reasons: []api.ApprovalReason{{RuleID: "production"}}, ArgumentsBytes: 34},
		{ID: "apr_01k6r0query", Status: api.ApprovalGranted, CreatedAt: at(3 * time.Hour), Tool: "run_query", AgentName: agents[2].name, Principal: "key:research", SelfCheck: "off",
			Reasons: []api.ApprovalReason{{RuleID: "sql"}}, Arguments: []api.ApprovalArgument{{Pointer: "/sql", Value: `"DELETE FROM drafts"`}}, ArgumentsBytes: 28,
			Decisions: []api.ApprovalDecided{{UserID: "usr_01k6r0mei", KeyID: "key_01k6r0", Decision: "grant", Note: "ticket 4711", At: at(2 * time.Hour)}}},
		{ID: "apr_01k6r0email", Status: api.ApprovalUsed, CreatedAt: at(5 * time.Hour), Tool: "send_email", AgentName: agents[0].name, Principal: "key:support", SelfCheck: "off"},
	}
	for i := range all {
		a := &all[i]
		a.Method, a.Upstream, a.Gateway, a.Environment, a.RequestID, a.ExpiresAt = "tools/call", "shop", "gw-1", "production", "req_"+a.ID[4:], &ends
		a.Version = 1 + p.Merged
		a.RequestedBy = api.ApprovalRequester{KeyID: "key_01k6r0gw", Name: "gateways", Prefix: "svc_ingest_Ab12"}
		if d, ok := p.decided[a.ID]; ok {
			a.Decisions, a.Status = append(a.Decisions, d), api.ApprovalDenied
			if d.Decision == "grant" {
				a.Status = api.ApprovalGranted
			}
		}
	}
	return all
}

// ListApprovals returns approvals with a status, without their arguments.
func (p *Plane) ListApprovals(_ context.Context, q client.ApprovalQuery) (api.Page[api.ApprovalRecord], error) {
	if p.Err != nil || p.Empty {
		return api.Page[api.ApprovalRecord]{}, p.Err
	}
	list := slices.DeleteFunc(p.approvals(), func(a api.ApprovalRecord) bool { return q.Status != "" && a.Status != q.Status })
	for i := range list {
		list[i].Arguments = nil
	}
	return api.Page[api.ApprovalRecord]{Data: list, Total: len(list)}, nil
}

// GetApproval returns an approval with its arguments.
func (p *Plane) GetApproval(_ context.Context, id string) (api.ApprovalRecord, error) {
	for _, a := range p.approvals() {
		if a.ID == id && p.Err == nil {
			return a, nil
		}
	}
	return api.ApprovalRecord{}, cmp.Or(p.Err, error(&client.Error{Status: 404, Message: "approval not found"}))
}

// DecideApproval decides about an approval.
func (p *Plane) DecideApproval(ctx context.Context, id string, in api.ApprovalDecision) (api.ApprovalRecord, error) {
	if p.Refuse {
		return api.ApprovalRecord{}, &client.Error{Status: 403, Message: "the caller cannot decide about the own call"}
	}
	if a, err := p.GetApproval(ctx, id); err == nil && in.Decision == "grant" && in.Version != a.Version {
		return a, &client.Error{Status: 409, Message: fmt.Sprintf("the approval has changed: its version is %d; read it again", a.Version)}
	}
	if p.decided == nil {
		p.decided = map[string]api.ApprovalDecided{}
	}
	p.decided[id] = api.ApprovalDecided{UserID: "usr_01k6r0mei", KeyID: "key_01k6r0", Decision: in.Decision, Note: in.Note, At: moment}
	return p.GetApproval(ctx, id)
}

// ListGateways returns gateways in all states.
func (p *Plane) ListGateways(_ context.Context, all bool) (api.List[api.Gateway], error) {
	if p.Err != nil {
		return api.List[api.Gateway]{}, p.Err
	}
	if p.Empty {
		return api.List[api.Gateway]{Data: []api.Gateway{}}, nil
	}
	at := func(ago time.Duration) time.Time { return moment.Add(-ago) }
	process := func(n int, state string, seen time.Duration, change func(*api.GatewayInstance)) api.GatewayInstance {
		i := api.GatewayInstance{GatewayReport: api.GatewayReport{Instance: fmt.Sprintf("%032x", n), Version: "1.0.0", State: state, StartedAt: at(50 * time.Hour), ConfigDigest: "299e762fa17d0ce2",
			Governance: api.GatewayGovernance{Enabled: true, Revision: 7, Policies: 12}, Audit: api.GatewayAudit{Writable: true, LastLine: int64(1000 * n)},
			Upstreams: []api.GatewayUpstream{{Name: "orders", State: "ok"}, {Name: "mail", State: "ok"}},
			License:   api.GatewayLicense{State: "valid", DaysLeft: 212}, Calls: int64(98_000 * n), Blocked: int64(310 * n), Failed: int64(95 * n)},
			Signed: true, KeyID: "key_01k6r0gw", ReportedAt: at(2 * time.Hour), SeenAt: at(seen)}
		change(&i)
		return i
	}
	same := func(*api.GatewayInstance) {}
	list := []api.Gateway{
		{Name: "edge-eu", State: api.GatewayRunning, Instances: []api.GatewayInstance{
			process(1, api.GatewayRunning, 12*time.Second, same),
			process(2, api.GatewayRunning, 25*time.Second, func(i *api.GatewayInstance) {
				i.Upstreams[1].State, i.RestartPending = "failing", []string{"listen"}
			})}},
		{Name: "edge-us", State: api.GatewaySilent, Instances: []api.GatewayInstance{process(3, api.GatewaySilent, 34*time.Minute, func(i *api.GatewayInstance) { i.License.DaysLeft = 19 })}},
		{Name: "lab", State: api.GatewayRunning, Instances: []api.GatewayInstance{process(4, api.GatewayRunning, 3*time.Second, func(i *api.GatewayInstance) {
			i.Governance.Enabled, i.Signed, i.Audit.Lost, i.License = false, false, 4, api.GatewayLicense{}
		})}},
	}
	return api.List[api.Gateway]{Data: list, Total: len(list)}, nil
}
