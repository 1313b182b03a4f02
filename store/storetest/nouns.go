package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/store"
)

var ctx = context.Background()

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

func testTeams(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "platform", Description: "d"}))(t)
	if team.MemberCount != 0 || team.Scopes == nil || len(team.Scopes) != 0 || team.CreatedAt.IsZero() || team.CreatedAt.Location() != time.UTC {
		t.Errorf("new team %+v", team)
	}
	_, err := tn.CreateTeam(ctx, store.TeamCreate{Name: "platform"})
	wantKind(t, err, store.Conflict, "name")
	for _, name := range []string{"", "a\x00b", strings.Repeat("x", 513)} {
		_, err = tn.CreateTeam(ctx, store.TeamCreate{Name: name})
		wantKind(t, err, store.Invalid, "name")
		_, err = tn.UpdateTeam(ctx, team.ID, store.TeamUpdate{Name: &name})
		wantKind(t, err, store.Invalid, "name")
	}
	scopes, name := []string{"agents:read", "costs:read"}, "renamed"
	got := must(tn.UpdateTeam(ctx, team.ID, store.TeamUpdate{Scopes: &scopes}))(t)
	if !slices.Equal(got.Scopes, scopes) || got.Name != "platform" {
		t.Errorf("scopes replaced: %+v", got)
	}
	got = must(tn.UpdateTeam(ctx, team.ID, store.TeamUpdate{Name: &name}))(t)
	if diff := cmp.Diff(got, must(tn.GetTeam(ctx, team.ID))(t)); diff != "" {
		t.Errorf("read after update: %s", diff)
	}
	other := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "platform"}))(t) // the name is free again
	_, err = tn.UpdateTeam(ctx, other.ID, store.TeamUpdate{Name: &name})
	wantKind(t, err, store.Conflict, "name")
	if _, err = tn.UpdateTeam(ctx, team.ID, store.TeamUpdate{Name: &name}); err != nil {
		t.Errorf("keep the own name: %v", err)
	}
	if err := tn.DeleteTeam(ctx, team.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, tn.DeleteTeam(ctx, team.ID), store.NotFound, "")
	must(tn.CreateTeam(ctx, store.TeamCreate{Name: name}))(t)
}

func testMembers(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	must(tn.ApplyUserEvent(ctx, store.UserEvent{Type: store.UserCreated, CreatedAt: o.Clock.Now(), UserID: "idp_1", Email: "One@Example.com"}))(t)

	byEmail := must(tn.AddMember(ctx, team.ID, store.MemberAdd{Email: "one@example.COM", Role: "admin"}))(t)
	if byEmail.UserID != "idp_1" || byEmail.Email != "one@example.com" || byEmail.Role != "admin" {
		t.Errorf("member by address %+v", byEmail)
	}
	invited := must(tn.AddMember(ctx, team.ID, store.MemberAdd{Email: "new@example.com"}))(t)
	if invited.UserID == "" || invited.Role != store.DefaultRole {
		t.Errorf("invited member %+v", invited)
	}
	if u := must(tn.GetUser(ctx, invited.UserID))(t); u.Status != store.UserInvited {
		t.Errorf("invited user is %s", u.Status)
	}
	byID := must(tn.AddMember(ctx, team.ID, store.MemberAdd{UserID: "idp_9"}))(t)
	if list := must(tn.ListMembers(ctx, team.ID))(t); !slices.Equal(ids(list, func(m store.Member) string { return m.UserID }), []string{byID.UserID, invited.UserID, "idp_1"}) {
		t.Errorf("members %+v, want the newest first", list)
	}
	if n := must(tn.GetTeam(ctx, team.ID))(t).MemberCount; n != 3 {
		t.Errorf("memberCount %d, want 3", n)
	}
	_, err := tn.AddMember(ctx, team.ID, store.MemberAdd{UserID: "idp_1"})
	wantKind(t, err, store.Conflict, "userId")
	_, err = tn.AddMember(ctx, team.ID, store.MemberAdd{})
	wantKind(t, err, store.Invalid, "userId")
	_, err = tn.AddMember(ctx, team.ID, store.MemberAdd{UserID: "idp_7", Email: "one@example.com"})
	wantKind(t, err, store.Invalid, "email")
	_, err = tn.AddMember(ctx, "team_unknown", store.MemberAdd{UserID: "idp_1"})
	wantKind(t, err, store.NotFound, "")
	if err := tn.RemoveMember(ctx, team.ID, "idp_1"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, tn.RemoveMember(ctx, team.ID, "idp_1"), store.NotFound, "")
	if n := must(tn.GetTeam(ctx, team.ID))(t).MemberCount; n != 2 {
		t.Errorf("memberCount %d, want 2", n)
	}
	if err := tn.DeleteTeam(ctx, team.ID); err != nil {
		t.Fatal(err)
	}
	_, err = tn.ListMembers(ctx, team.ID)
	wantKind(t, err, store.NotFound, "")
}

func ids[T any](list []T, id func(T) string) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = id(list[i])
	}
	return out
}

func testAgents(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	a := must(tn.CreateAgent(ctx, store.AgentCreate{Name: "a", Environment: "production", ModelProvider: "p", ModelName: "m",
		Description: "d", ConfigYAML: "v: 1", DeployedBy: "usr_admin"}))(t)
	b := newAgent(t, tn, "b")
	_, err := tn.CreateAgent(ctx, store.AgentCreate{Name: "a"})
	wantKind(t, err, store.Conflict, "name")
	if got := must(tn.GetAgent(ctx, a.ID))(t); !cmp.Equal(got, a) || got.ConfigYAML != "v: 1" {
		t.Errorf("get %+v, want %+v", got, a)
	}
	list, total, err := tn.ListAgents(ctx, store.AgentFilter{Environment: "production"}, store.Page{Limit: 1, Offset: 1})
	if err != nil || total != 2 || len(list) != 1 || list[0].ID != a.ID || list[0].ConfigYAML != "" {
		t.Errorf("list %+v, %d, %v", list, total, err)
	}
	if _, total, _ := tn.ListAgents(ctx, store.AgentFilter{Environment: "staging"}, store.Page{}); total != 0 {
		t.Errorf("%d agents in staging", total)
	}
	same, two, taken := "v: 1", "v: 2", "b"
	must(tn.UpdateAgent(ctx, a.ID, store.AgentUpdate{ConfigYAML: &same, DeployedBy: "u"}))(t)
	must(tn.UpdateAgent(ctx, a.ID, store.AgentUpdate{ConfigYAML: &two, DeployedBy: "u"}))(t)
	deps, total, err := tn.ListDeployments(ctx, a.ID, store.Page{Limit: 20})
	if err != nil || total != 2 || deps[0].ConfigYAML != two || deps[0].DeployedBy != "u" || deps[1].ConfigYAML != same || deps[1].DeployedBy != "usr_admin" {
		t.Errorf("history %+v, %d, %v", deps, total, err)
	}
	if _, total, _ := tn.ListDeployments(ctx, b.ID, store.Page{}); total != 0 {
		t.Errorf("an agent without configuration has %d deployments", total)
	}
	_, err = tn.UpdateAgent(ctx, a.ID, store.AgentUpdate{Name: &taken})
	wantKind(t, err, store.Conflict, "name")

	budget := must(tn.CreateBudget(ctx, store.BudgetCreate{Name: "x", Payer: store.Payer{AgentID: a.ID}, Period: store.Daily, Limit: 5}))(t)
	ingest(t, tn, store.IngestResult{Accepted: 1}, store.Trace{ID: "1", AgentID: a.ID, Status: store.TraceSuccess, ToolName: "search"})
	if err := tn.DeleteAgent(ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, tn.DeleteAgent(ctx, a.ID), store.NotFound, "")
	if tr := must(tn.GetTrace(ctx, "1"))(t); tr.AgentID != a.ID || tr.AgentName != "a" {
		t.Errorf("trace of a deleted agent: %+v", tr)
	}
	if got := must(tn.GetBudget(ctx, budget.ID))(t); got.AgentID != a.ID || got.AgentName != "a" {
		t.Errorf("budget of a deleted agent: %+v", got)
	}
	again := newAgent(t, tn, "a")
	if again.ID == a.ID {
		t.Error("an id was given twice")
	}
	if _, total, _ := tn.ListTools(ctx, again.ID, store.Page{}); total != 0 {
		t.Error("a new agent has the tools of a deleted one")
	}
}

func testTeamsOfAgents(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	_, err := tn.CreateAgent(ctx, store.AgentCreate{Name: "a", TeamID: "tea_unknown"})
	wantKind(t, err, store.Invalid, "teamId")
	a := must(tn.CreateAgent(ctx, store.AgentCreate{Name: "a", TeamID: team.ID, ConfigYAML: "v: 1"}))(t)
	b := newAgent(t, tn, "b")
	unknown := "tea_unknown"
	_, err = tn.UpdateAgent(ctx, b.ID, store.AgentUpdate{TeamID: &unknown})
	wantKind(t, err, store.Invalid, "teamId")
	must(tn.UpdateAgent(ctx, b.ID, store.AgentUpdate{TeamID: &team.ID}))(t)
	if list, total, err := tn.ListAgents(ctx, store.AgentFilter{TeamID: team.ID}, store.Page{Limit: 1}); err != nil || total != 2 || len(list) != 1 || list[0].ID != b.ID {
		t.Errorf("agents of the team: %+v, %d, %v", list, total, err)
	}
	must(tn.CreateBudget(ctx, store.BudgetCreate{Name: "of the team", Payer: store.Payer{Scope: store.TeamBudget, TeamID: team.ID}, Period: store.Daily, Limit: 1}))(t)
	kept := must(tn.CreateBudget(ctx, store.BudgetCreate{Name: "of an agent", Payer: store.Payer{AgentID: a.ID}, Period: store.Daily, Limit: 1}))(t)
	wantKind(t, tn.DeleteTeam(store.IfMatch(ctx, []string{"0"}), team.ID), store.Outdated, "")
	revision := must(tn.GovernanceRevision(ctx))(t)
	if err := tn.DeleteTeam(store.IfMatch(ctx, []string{team.Object().Digest()}), team.ID); err != nil {
		t.Fatal(err)
	}
	if got := must(tn.GetAgent(ctx, a.ID))(t); got.TeamID != "" || got.ConfigYAML != "v: 1" {
		t.Errorf("agent of a deleted team: %+v", got)
	}
	if must(tn.GovernanceRevision(ctx))(t) == revision {
		t.Error("gateways do not see that the team was deleted")
	}
	if list := must(tn.ListBudgets(ctx))(t); len(list) != 1 || list[0].ID != kept.ID {
		t.Errorf("budgets after the deletion of a team: %+v", list)
	}
	events, _, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, store.Page{Limit: 4})
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	if err != nil || !slices.Equal(kinds, []string{"team", "budget", "agent", "agent"}) || events[2].Changed[0] != "teamId" {
		t.Errorf("events %+v, %v", events, err)
	}
}

// testSpendByScope: the costs of a team are those of the traces whose agent belonged to it when they
// were recorded; statistics by environment do not show teams.
func testSpendByScope(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	one := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "one"}))(t)
	two := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "two"}))(t)
	a := must(tn.CreateAgent(ctx, store.AgentCreate{Name: "a", TeamID: one.ID}))(t)
	now := o.Clock.Now().UTC()
	n := 0
	spend := func(cost store.NanoUSD, tr store.Trace) {
		n++
		tr.ID, tr.Cost, tr.Status, tr.CreatedAt = fmt.Sprint("t", n), cost, store.TraceSuccess, now
		ingest(t, tn, store.IngestResult{Accepted: 1}, tr)
	}
	from, to := store.Monthly.Window(now)
	check := func(what string, want ...store.NanoUSD) {
		t.Helper()
		var q []store.SpendQuery
		for _, p := range []store.Payer{{Scope: store.AgentBudget, AgentID: a.ID}, {Scope: store.TeamBudget, TeamID: one.ID}, {Scope: store.TeamBudget, TeamID: two.ID},
			{Scope: store.EnvironmentBudget, Environment: "prod"}, {Scope: store.TenantBudget}, {Scope: store.TeamBudget}, {Scope: store.EnvironmentBudget}, {Scope: store.TeamBudget, TeamID: "tea_unknown"}} {
			q = append(q, store.SpendQuery{Payer: p, From: from, To: to})
		}
		if got := must(tn.Spend(ctx, q))(t); !slices.Equal(got, append(want, 0, 0, 0)) {
			t.Errorf("%s: spent %v, want %v and zeros", what, got, want)
		}
	}
	check("nothing", 0, 0, 0, 0, 0)
	spend(1, store.Trace{AgentName: "a", Environment: "prod"})
	spend(10, store.Trace{AgentID: a.ID})
	spend(100, store.Trace{AgentName: "of no team", Environment: "prod"})
	check("one team", 11, 11, 0, 101, 111)
	must(tn.UpdateAgent(ctx, a.ID, store.AgentUpdate{TeamID: &two.ID}))(t)
	spend(1000, store.Trace{AgentID: a.ID, Environment: "prod"})
	spend(10000, store.Trace{AgentName: "a", Environment: "test"})
	check("moved", 11011, 11, 11000, 1101, 11111)
	none := ""
	must(tn.UpdateAgent(ctx, a.ID, store.AgentUpdate{TeamID: &none}))(t)
	spend(100000, store.Trace{AgentID: a.ID})
	check("left", 111011, 11, 11000, 1101, 111111)
	if err := tn.DeleteTeam(ctx, two.ID); err != nil {
		t.Fatal(err)
	}
	check("deleted", 111011, 11, 11000, 1101, 111111)

	stats := must(tn.Stats(ctx, store.StatsQuery{From: from, To: to, GroupBy: store.GroupByEnvironment}))(t)
	costs := map[string]store.NanoUSD{}
	for _, g := range stats.Groups {
		costs[g.Environment] = g.Cost
	}
	if len(stats.Groups) != 3 || costs["prod"] != 1101 || costs["test"] != 10000 || costs[""] != 100010 {
		t.Errorf("statistics by environment are %+v", stats.Groups)
	}
	if _, total, err := tn.ListTraces(ctx, store.TraceFilter{Environment: "prod"}, store.Page{}); err != nil || total != 3 {
		t.Errorf("%d traces of the environment, %v", total, err)
	}
}

func testBudgets(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	agent := newAgent(t, tn, "agent")
	_, err := tn.CreateBudget(ctx, store.BudgetCreate{Name: "b", Payer: store.Payer{AgentID: "agt_unknown"}})
	wantKind(t, err, store.Invalid, "agentId")
	b := must(tn.CreateBudget(ctx, store.BudgetCreate{Name: "b", Payer: store.Payer{AgentID: agent.ID}, Period: store.Weekly, Limit: 12_500_000_000}))(t)
	if b.AgentName != "agent" || b.Limit.USD() != 12.5 {
		t.Errorf("budget %+v", b)
	}
	_, err = tn.CreateBudget(ctx, store.BudgetCreate{Name: "b", Payer: store.Payer{AgentID: agent.ID}})
	wantKind(t, err, store.Conflict, "name")
	for _, wrong := range []struct {
		payer store.Payer
		field string
	}{
		{store.Payer{}, "agentId"}, {store.Payer{Scope: store.EnvironmentBudget}, "environment"}, {store.Payer{Scope: store.TeamBudget}, "teamId"},
		{store.Payer{Scope: store.TeamBudget, TeamID: "tea_unknown"}, "teamId"}, {store.Payer{Scope: store.TenantBudget, AgentID: agent.ID}, "agentId"},
		{store.Payer{AgentID: agent.ID, Environment: "e"}, "environment"},
	} {
		_, err = tn.CreateBudget(ctx, store.BudgetCreate{Name: "wrong", Payer: wrong.payer, Period: store.Daily, Limit: 1})
		wantKind(t, err, store.Invalid, wrong.field)
	}
	scope, environment := store.EnvironmentBudget, "e"
	wide := must(tn.CreateBudget(ctx, store.BudgetCreate{Name: "wide", Payer: store.Payer{AgentID: agent.ID}, Period: store.Daily, Limit: 1, WarnAt: []int{80, 50}}))(t)
	_, err = tn.UpdateBudget(ctx, wide.ID, store.BudgetUpdate{Scope: &scope})
	wantKind(t, err, store.Invalid, "environment")
	wide = must(tn.UpdateBudget(ctx, wide.ID, store.BudgetUpdate{Scope: &scope, Environment: &environment}))(t)
	if wide.AgentID != "" || wide.AgentName != "" || wide.Environment != "e" || !slices.Equal(wide.WarnAt, []int{50, 80}) {
		t.Errorf("budget of an environment: %+v", wide)
	}
	if err := tn.DeleteBudget(ctx, wide.ID); err != nil {
		t.Fatal(err)
	}
	limit, name := store.NanoUSD(1), "renamed"
	got := must(tn.UpdateBudget(ctx, b.ID, store.BudgetUpdate{Limit: &limit, Name: &name}))(t)
	if got.Limit != 1 || got.Name != name || got.Period != store.Weekly {
		t.Errorf("updated %+v", got)
	}
	agentName := "agent2"
	must(tn.UpdateAgent(ctx, agent.ID, store.AgentUpdate{Name: &agentName}))(t)
	if list := must(tn.ListBudgets(ctx))(t); len(list) != 1 || list[0].AgentName != agentName {
		t.Errorf("list %+v, want the agent's present name", list)
	}
	if err := tn.DeleteBudget(ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, tn.DeleteBudget(ctx, b.ID), store.NotFound, "")
	must(tn.CreateBudget(ctx, store.BudgetCreate{Name: name, Payer: store.Payer{AgentID: agent.ID}}))(t)
}

func testSLAs(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	agent := newAgent(t, tn, "agent")
	p99 := 250.0
	sla := must(tn.CreateSLA(ctx, store.SLACreate{Name: "s", AgentID: agent.ID, P99LatencyMs: &p99, EvaluationPeriod: "1h"}))(t)
	if sla.AgentName != "agent" || sla.ErrorRatePercent != nil || *sla.P99LatencyMs != 250 {
		t.Errorf("target %+v", sla)
	}
	other := must(tn.CreateSLA(ctx, store.SLACreate{Name: "s", AgentID: agent.ID, EvaluationPeriod: "7d"}))(t) // names need not differ
	half, day := 0.5, "24h"
	changed := must(tn.UpdateSLA(ctx, sla.ID, store.SLAUpdate{ErrorRatePercent: &half, EvaluationPeriod: &day}))(t)
	list := must(tn.ListSLAs(ctx))(t)
	if got := ids(list, func(s store.SLATarget) string { return s.ID }); !slices.Equal(got, []string{other.ID, sla.ID}) || !cmp.Equal(list[1], changed) {
		t.Errorf("targets %+v", list)
	}
	if *changed.P99LatencyMs != 250 || *changed.ErrorRatePercent != 0.5 || changed.EvaluationPeriod != day || !changed.CreatedAt.Equal(sla.CreatedAt) {
		t.Errorf("changed target %+v", changed)
	}
	less := must(tn.UpdateSLA(ctx, sla.ID, store.SLAUpdate{NoLatency: true}))(t)
	if less.P99LatencyMs != nil || *less.ErrorRatePercent != 0.5 || !cmp.Equal(less, must(tn.GetSLA(ctx, sla.ID))(t)) {
		t.Errorf("target without a latency %+v", less)
	}
	less = must(tn.UpdateSLA(ctx, sla.ID, store.SLAUpdate{P99LatencyMs: &p99, NoErrorRate: true}))(t)
	if *less.P99LatencyMs != 250 || less.ErrorRatePercent != nil {
		t.Errorf("target without an error rate %+v", less)
	}
	start := o.Clock.Now().Truncate(time.Hour)
	v := store.SLAViolation{SLAID: sla.ID, SLAName: "s", AgentName: "agent", Type: "latency", PeriodStart: start, PeriodEnd: start.Add(time.Hour)}
	for i, want := range []bool{true, false} {
		if created := must(tn.RecordViolation(ctx, v))(t); created != want {
			t.Errorf("violation recorded for the %d. time: created %v", i+1, created)
		}
	}
	rate, next := v, v
	rate.Type = "error_rate"
	next.PeriodStart, next.PeriodEnd = v.PeriodEnd, v.PeriodEnd.Add(time.Hour)
	for _, other := range []store.SLAViolation{rate, next} {
		if !must(tn.RecordViolation(ctx, other))(t) {
			t.Errorf("%s of %v is one of its own", other.Type, other.PeriodStart)
		}
	}
	if list := first(tn.ListViolations(ctx, store.ViolationFilter{SLAID: sla.ID, Since: next.PeriodEnd}, store.Page{})); len(list) != 1 || !list[0].PeriodStart.Equal(next.PeriodStart) {
		t.Errorf("violations since: %+v", list)
	}
	if err := tn.DeleteSLA(ctx, sla.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, tn.DeleteSLA(ctx, sla.ID), store.NotFound, "")
	if list := first(tn.ListViolations(ctx, store.ViolationFilter{}, store.Page{})); len(list) != 3 || list[0].ID < list[1].ID {
		t.Errorf("violations after deletion of the target: %+v", list)
	}
	res := must(tn.ApplyRetention(ctx, store.RetentionBounds{Violations: next.PeriodEnd}))(t)
	if res.Violations != 2 || len(first(tn.ListViolations(ctx, store.ViolationFilter{}, store.Page{}))) != 1 {
		t.Errorf("trim %+v", res)
	}
}

func testPolicies(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	threshold := 0.7
	in := store.PolicyCreate{Name: "p", Phase: "request", Condition: store.PolicyCondition{Type: "injection_score", Threshold: &threshold}, Action: "block", Message: "Ask an operator.", Enabled: true}
	p := must(tn.CreatePolicies(ctx, in))(t)[0]
	judged := store.PolicyCreate{Name: "arguments", Condition: store.PolicyCondition{Type: "tool_arguments", ToolName: "t", Arguments: []byte(`{"/a":{"min":1.50,"not":{"equals":null}}}`)}}
	withArguments := must(tn.CreatePolicies(ctx, judged))(t)[0]
	if got := must(tn.GetPolicy(ctx, withArguments.ID))(t); string(got.Condition.Arguments) != string(judged.Condition.Arguments) || got.Object().Digest() != withArguments.Object().Digest() {
		t.Errorf("a condition on arguments is %s", got.Condition.Arguments)
	}
	flow := store.PolicyCreate{Name: "labels", Condition: store.PolicyCondition{Type: "data_flow", LabelsAll: []string{"a", "b"}, LabelsAny: []string{"c"}}}
	withLabels := must(tn.CreatePolicies(ctx, flow))(t)[0]
	if got := must(tn.GetPolicy(ctx, withLabels.ID))(t); !cmp.Equal(got.Condition, flow.Condition) || got.Object().Digest() != withLabels.Object().Digest() {
		t.Errorf("a condition on labels is %+v", got.Condition)
	}
	for _, id := range []string{withArguments.ID, withLabels.ID} {
		if err := tn.DeletePolicy(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if got := must(tn.GetPolicy(ctx, p.ID))(t); got.Message != in.Message {
		t.Errorf("the message is %q", got.Message)
	}
	if p.On != "*" || !p.Enabled || *p.Condition.Threshold != 0.7 {
		t.Errorf("policy %+v", p)
	}
	_, err := tn.CreatePolicies(ctx, store.PolicyCreate{Name: "q"}, store.PolicyCreate{Name: "p"})
	wantKind(t, err, store.Conflict, "name")
	_, err = tn.CreatePolicies(ctx, store.PolicyCreate{Name: "q"}, store.PolicyCreate{Name: "q"})
	wantKind(t, err, store.Conflict, "name")
	_, err = tn.CreatePolicies(ctx, make([]store.PolicyCreate, store.MaxPolicies)...) // the team has one member
	wantKind(t, err, store.Invalid, "name")
	if _, total, _ := tn.ListPolicies(ctx, store.PolicyFilter{}, store.Page{}); total != 1 {
		t.Errorf("%d policies: a refused batch left some", total)
	}
	must(tn.CreatePolicies(ctx, store.PolicyCreate{Name: "q", Phase: "response"}))(t)
	yes := true
	if list, total, err := tn.ListPolicies(ctx, store.PolicyFilter{Phase: "request", Enabled: &yes}, store.Page{Limit: 50}); err != nil || total != 1 || list[0].ID != p.ID {
		t.Errorf("filtered %+v, %d, %v", list, total, err)
	}
	refusal := store.FieldError(store.Invalid, "no", "redactionStrategy", "is required")
	action, off := "redact", false
	_, err = tn.UpdatePolicy(ctx, p.ID, store.PolicyUpdate{Action: &action}, func(next store.Policy) error {
		if next.Action != action || next.Name != "p" {
			t.Errorf("check sees %+v", next)
		}
		return refusal
	})
	if err != error(refusal) || must(tn.GetPolicy(ctx, p.ID))(t).Action != "block" {
		t.Errorf("a refused update: %v", err)
	}
	if got := must(tn.UpdatePolicy(ctx, p.ID, store.PolicyUpdate{Enabled: &off}, nil))(t); got.Enabled || got.Action != "block" {
		t.Errorf("updated %+v", got)
	}
	fired := []store.PolicyFired{{ID: p.ID, Name: "p", Action: "block"}, {ID: p.ID, Name: "p", Action: "block"}, {ID: "pol_unknown"}}
	tr := store.Trace{ID: "1", AgentName: "a", Status: store.TraceError, Blocked: true, PoliciesFired: fired}
	ingest(t, tn, store.IngestResult{Accepted: 1}, tr)
	ingest(t, tn, store.IngestResult{Duplicates: 1}, tr)
	tr.ID = "2"
	ingest(t, tn, store.IngestResult{Accepted: 1}, tr)
	if fires := must(tn.PolicyFires(ctx, []string{p.ID, "pol_never"}))(t); len(fires) != 1 || fires[p.ID] != 2 {
		t.Errorf("fires %v, want 2 of %s alone", fires, p.ID)
	}
	if err := tn.DeletePolicy(ctx, p.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, tn.DeletePolicy(ctx, p.ID), store.NotFound, "")
}

func testKeys(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team", Scopes: []string{"agents:read"}}))(t)
	digest := store.DigestKey("svc_agent_secret")
	k := must(tn.CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeAgent, Prefix: "svc_agent_secr", Digest: digest, TeamID: team.ID, CreatedBy: store.DefaultAdminID}))(t)
	cred := must(o.Records.Authenticate(ctx, digest))(t)
	if cred.TenantID != tn.ID() || cred.Key.ID != k.ID || cred.Team == nil || !slices.Equal(cred.Team.Scopes, team.Scopes) {
		t.Errorf("credential %+v", cred)
	}
	_, err := o.Records.Authenticate(ctx, store.DigestKey("svc_agent_other"))
	wantKind(t, err, store.Unauthorized, "")
	_, err = tn.CreateKey(ctx, store.KeyCreate{Name: "k", Digest: digest, CreatedBy: store.DefaultAdminID})
	wantKind(t, err, store.Conflict, "")
	_, err = tn.CreateKey(ctx, store.KeyCreate{Name: "k", Digest: store.DigestKey("y"), CreatedBy: "usr_unknown"})
	wantKind(t, err, store.Invalid, "userId")
	_, err = tn.CreateKey(ctx, store.KeyCreate{Name: "k", Digest: store.DigestKey("y"), TeamID: "team_unknown", CreatedBy: store.DefaultAdminID})
	wantKind(t, err, store.Invalid, "teamId")

	list, total, err := tn.ListKeys(ctx, store.KeyFilter{Scope: store.ScopeAgent}, store.Page{Limit: 50})
	if err != nil || total != 1 || !list[0].LastUsedAt.IsZero() {
		t.Errorf("list %+v, %d, %v", list, total, err)
	}
	at := o.Clock.Now().UTC()
	tn.RecordKeyUse(k.ID, at)
	tn.RecordKeyUse(k.ID, at.Add(-time.Hour)) // an older use does not set it back
	if got := must(tn.GetKey(ctx, k.ID))(t); !got.LastUsedAt.Equal(at) {
		t.Errorf("lastUsedAt %v, want %v", got.LastUsedAt, at)
	}

	if err := tn.DeleteTeam(ctx, team.ID); err != nil {
		t.Fatal(err)
	}
	_, err = o.Records.Authenticate(ctx, digest)
	wantKind(t, err, store.Unauthorized, "")

	plain := store.DigestKey("svc_api_secret")
	k2 := must(tn.CreateKey(ctx, store.KeyCreate{Name: "k2", Scope: store.ScopeAPI, Digest: plain, CreatedBy: store.DefaultAdminID}))(t)
	must(o.Records.Authenticate(ctx, plain))(t)
	if err := tn.DeleteKey(ctx, k2.ID); err != nil {
		t.Fatal(err)
	}
	_, err = o.Records.Authenticate(ctx, plain)
	wantKind(t, err, store.Unauthorized, "")
	wantKind(t, tn.DeleteKey(ctx, k2.ID), store.NotFound, "")
}
