package storetest

import (
	"slices"
	"testing"
	"time"

	"svc/store"
)

func testTenants(t testing.TB, o Opened) {
	first := NewTenant(t, o, "first")
	info, key, err := o.Records.CreateTenant(ctx, store.TenantCreate{Name: "second", OrgID: "org_2"})
	if err != nil || key != nil {
		t.Fatalf("create without a key: %v, %v", key, err)
	}
	if got := must(o.Records.GetTenant(ctx, info.ID))(t); got != info {
		t.Errorf("get %+v, want %+v", got, info)
	}
	if list := must(o.Records.ListTenants(ctx))(t); len(list) != 2 || list[0].ID != info.ID || list[1].ID != first.ID() {
		t.Errorf("list %+v, want the newest first", list)
	}
	if got := must(o.Records.TenantForOrg(ctx, "org_2"))(t); got.ID != info.ID {
		t.Errorf("organization belongs to %s", got.ID)
	}
	_, err = o.Records.TenantForOrg(ctx, "org_unbound")
	wantKind(t, err, store.NotFound, "")
	_, err = o.Records.GetTenant(ctx, "ten_unknown")
	wantKind(t, err, store.NotFound, "")
	for field, in := range map[string]store.TenantCreate{
		"name": {Name: "first"}, "orgId": {Name: "third", OrgID: "org_2"}, "id": {ID: info.ID, Name: "fourth"},
	} {
		_, _, err := o.Records.CreateTenant(ctx, in)
		wantKind(t, err, store.Conflict, field)
	}
	_, _, err = o.Records.CreateTenant(ctx, store.TenantCreate{})
	wantKind(t, err, store.Invalid, "name")
	if list := must(o.Records.ListTenants(ctx))(t); len(list) != 2 {
		t.Errorf("%d tenants after refused creations", len(list))
	}
	admin := must(first.GetUser(ctx, store.DefaultAdminID))(t)
	if admin.Status != store.UserActive {
		t.Errorf("the first user is %s", admin.Status)
	}
	one, two := must(first.RedactionKey(ctx))(t), must(o.Records.Tenant(info.ID).RedactionKey(ctx))(t)
	if len(one) != 32 || slices.Equal(one, two) || !slices.Equal(one, must(first.RedactionKey(ctx))(t)) {
		t.Error("redaction keys are not stable and of each tenant")
	}
	_, _, err = o.Records.Tenant("ten_unknown").ListTeams(ctx, store.Page{})
	wantKind(t, err, store.NotFound, "")
	_, err = o.Traces.TracesOf("ten_unknown").Ingest(ctx, store.Batch{Traces: []store.Trace{{AgentName: "a", Status: store.TraceSuccess}}})
	wantKind(t, err, store.NotFound, "")
}

func testBootstrap(t testing.TB, o Opened) {
	in := store.TenantCreate{ID: "default", Name: "default", Key: &store.KeyCreate{Name: "bootstrap", Scope: store.ScopeAPI, Digest: store.DigestKey("x")}}
	info, created, err := o.Records.Bootstrap(ctx, in)
	if err != nil || !created || info.ID != "default" {
		t.Fatalf("bootstrap: %+v, %v, %v", info, created, err)
	}
	if cred := must(o.Records.Authenticate(ctx, store.DigestKey("x")))(t); cred.TenantID != "default" || cred.Key.CreatedBy != store.DefaultAdminID {
		t.Errorf("credential %+v", cred)
	}
	if _, created, err := o.Records.Bootstrap(ctx, in); created || err != nil {
		t.Errorf("second bootstrap: %v, %v", created, err)
	}
	if got := must(o.Records.TenantForOrg(ctx, "org_any"))(t); got.ID != "default" {
		t.Errorf("an unbound organization means %q in a store of one tenant", got.ID)
	}
}

// testOnlyTenantOfAnOrganization: the only tenant of a store accepts any
// organization, unless it is bound to one: then it accepts only that one.
func testOnlyTenantOfAnOrganization(t testing.TB, o Opened) {
	info, _, err := o.Records.CreateTenant(ctx, store.TenantCreate{Name: "only", OrgID: "org_only"})
	if err != nil {
		t.Fatal(err)
	}
	if got := must(o.Records.TenantForOrg(ctx, "org_only"))(t); got.ID != info.ID {
		t.Errorf("its organization means %q", got.ID)
	}
	for _, org := range []string{"org_other", ""} {
		_, err := o.Records.TenantForOrg(ctx, org)
		wantKind(t, err, store.NotFound, "")
	}
}

// testIsolation reads as one tenant with every id of another tenant.
func testIsolation(t testing.TB, o Opened) {
	a, b := NewTenant(t, o, "a"), NewTenant(t, o, "b")
	team := must(a.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	agent := newAgent(t, a, "agent")
	budget := must(a.CreateBudget(ctx, store.BudgetCreate{Name: "budget", Payer: store.Payer{AgentID: agent.ID}, Period: store.Daily, Limit: 1}))(t)
	sla := must(a.CreateSLA(ctx, store.SLACreate{Name: "sla", AgentID: agent.ID, EvaluationPeriod: "1h"}))(t)
	policy := must(a.CreatePolicies(ctx, store.PolicyCreate{Name: "policy"}))(t)[0]
	key := must(a.CreateKey(ctx, store.KeyCreate{Name: "key", Scope: store.ScopeAPI, Digest: store.DigestKey("k"), CreatedBy: store.DefaultAdminID}))(t)
	ingest(t, a, store.IngestResult{Accepted: 1}, store.Trace{ID: "shared", AgentID: agent.ID, Status: store.TraceSuccess, Cost: 7, ToolName: "search",
		PoliciesFired: []store.PolicyFired{{ID: policy.ID}}})

	name := "x"
	for call, err := range map[string]error{
		"GetTeam":         second(b.GetTeam(ctx, team.ID)),
		"UpdateTeam":      second(b.UpdateTeam(ctx, team.ID, store.TeamUpdate{Name: &name})),
		"DeleteTeam":      b.DeleteTeam(ctx, team.ID),
		"ListMembers":     second(b.ListMembers(ctx, team.ID)),
		"AddMember":       second(b.AddMember(ctx, team.ID, store.MemberAdd{UserID: "u"})),
		"RemoveMember":    b.RemoveMember(ctx, team.ID, "u"),
		"GetAgent":        second(b.GetAgent(ctx, agent.ID)),
		"UpdateAgent":     second(b.UpdateAgent(ctx, agent.ID, store.AgentUpdate{Name: &name})),
		"DeleteAgent":     b.DeleteAgent(ctx, agent.ID),
		"ListDeployments": third(b.ListDeployments(ctx, agent.ID, store.Page{})),
		"GetBudget":       second(b.GetBudget(ctx, budget.ID)),
		"UpdateBudget":    second(b.UpdateBudget(ctx, budget.ID, store.BudgetUpdate{Name: &name})),
		"DeleteBudget":    b.DeleteBudget(ctx, budget.ID),
		"GetSLA":          second(b.GetSLA(ctx, sla.ID)),
		"UpdateSLA":       second(b.UpdateSLA(ctx, sla.ID, store.SLAUpdate{Name: &name})),
		"DeleteSLA":       b.DeleteSLA(ctx, sla.ID),
		"RecordViolation": second(b.RecordViolation(ctx, store.SLAViolation{SLAID: sla.ID, Type: "latency"})),
		"GetPolicy":       second(b.GetPolicy(ctx, policy.ID)),
		"UpdatePolicy":    second(b.UpdatePolicy(ctx, policy.ID, store.PolicyUpdate{Name: &name}, nil)),
		"DeletePolicy":    b.DeletePolicy(ctx, policy.ID),
		"GetKey":          second(b.GetKey(ctx, key.ID)),
		"DeleteKey":       b.DeleteKey(ctx, key.ID),
		"GetTrace":        second(b.GetTrace(ctx, "shared")),
	} {
		if store.KindOf(err) != store.NotFound {
			t.Errorf("%s with another tenant's id: %v, want not found", call, err)
		}
	}
	_, err := b.CreateBudget(ctx, store.BudgetCreate{Name: "budget", Payer: store.Payer{AgentID: agent.ID}})
	wantKind(t, err, store.Invalid, "agentId")
	_, err = b.CreateSLA(ctx, store.SLACreate{Name: "sla", AgentID: agent.ID})
	wantKind(t, err, store.Invalid, "agentId")
	_, err = b.CreateKey(ctx, store.KeyCreate{Name: "k", Digest: store.DigestKey("k2"), TeamID: team.ID, CreatedBy: store.DefaultAdminID})
	wantKind(t, err, store.Invalid, "teamId")
	_, err = b.Ingest(ctx, store.Batch{Traces: []store.Trace{{AgentID: agent.ID, Status: store.TraceSuccess}}})
	wantKind(t, err, store.Invalid, "traces[0].agentId")

	// The same names, ids and sessions exist in both tenants independently.
	must(b.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	ingest(t, b, store.IngestResult{Accepted: 1}, store.Trace{ID: "shared", AgentName: "agent", Status: store.TraceError})
	for _, tn := range []Tenant{a, b} {
		if _, n, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{}); n != 1 || err != nil {
			t.Errorf("tenant %s sees %d traces, %v", tn.ID(), n, err)
		}
	}
	if list, n, err := b.ListTraces(ctx, store.TraceFilter{AgentID: agent.ID}, store.Page{}); n != 0 || len(list) != 0 || err != nil {
		t.Errorf("filter by another tenant's agent: %d, %v", n, err)
	}
	if list, n, err := b.ListTools(ctx, agent.ID, store.Page{}); n != 0 || len(list) != 0 || err != nil {
		t.Errorf("tools of another tenant's agent: %d, %v", n, err)
	}
	if fires := must(b.PolicyFires(ctx, []string{policy.ID}))(t); len(fires) != 0 {
		t.Errorf("fires of another tenant's policy: %v", fires)
	}
	if names := must(b.AgentNames(ctx, []string{agent.ID}))(t); len(names) != 0 {
		t.Errorf("names of another tenant's agent: %v", names)
	}
	if got := must(b.ResolveAgents(ctx, []store.NamedAgent{{ID: agent.ID}}))(t); !got[0].Unknown {
		t.Errorf("another tenant's agent: %+v", got)
	}
	now := o.Clock.Now()
	if s := must(b.Stats(ctx, store.StatsQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour)}))(t); s.Summary.Traces != 1 || s.Summary.Cost != 0 {
		t.Errorf("statistics of b: %+v", s.Summary)
	}
	if spent := must(b.Spend(ctx, []store.SpendQuery{{Payer: store.Payer{AgentID: agent.ID}, From: now.Add(-time.Hour), To: now.Add(time.Hour)}}))(t); spent[0] != 0 {
		t.Errorf("b spent %v through a's agent", spent)
	}
}
