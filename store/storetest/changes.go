package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// testAuditEvents makes each change that administrators can make, and checks that each
// has one event with its author, in one chain, without a secret.
func testAuditEvents(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	by := store.By{KeyID: "key_1", KeyPrefix: "svc_api_abcd", UserID: "u1", Address: "192.0.2.1", RequestID: "req_1", Method: "POST", Route: "/api/x"}
	as := store.ChangedBy(ctx, by)
	before := len(eventsOf(t, tn, store.AuditEventFilter{}))

	team := must(tn.CreateTeam(as, store.TeamCreate{Name: "a"}))(t)
	must(tn.UpdateTeam(as, team.ID, store.TeamUpdate{Scopes: &[]string{"agents:read"}}))(t)
	must(tn.UpdateTeam(as, team.ID, store.TeamUpdate{Scopes: &[]string{"agents:read"}}))(t) // changes nothing
	must(tn.AddMember(as, team.ID, store.MemberAdd{UserID: "u2"}))(t)
	agent := must(tn.CreateAgent(as, store.AgentCreate{Name: "a", ConfigYAML: "model: x"}))(t)
	config := "model: y"
	must(tn.UpdateAgent(as, agent.ID, store.AgentUpdate{ConfigYAML: &config}))(t)
	budget := must(tn.CreateBudget(as, store.BudgetCreate{Name: "b", Payer: store.Payer{AgentID: agent.ID}, Period: store.Daily, Limit: 5}))(t)
	limit := store.NanoUSD(7)
	must(tn.UpdateBudget(as, budget.ID, store.BudgetUpdate{Limit: &limit}))(t)
	sla := must(tn.CreateSLA(as, store.SLACreate{Name: "s", AgentID: agent.ID, EvaluationPeriod: "1h"}))(t)
	policies := must(tn.CreatePolicies(as, store.PolicyCreate{Name: "p", Enabled: true}, store.PolicyCreate{Name: "q"}))(t)
	off := false
	must(tn.UpdatePolicy(as, policies[0].ID, store.PolicyUpdate{Enabled: &off}, nil))(t)
	digest := store.DigestKey("a secret")
	key := must(tn.CreateKey(as, store.KeyCreate{Name: "k", Scope: store.ScopeIngest, Digest: digest, CreatedBy: store.DefaultAdminID}))(t)
	for _, err := range []error{
		tn.DeleteKey(as, key.ID), tn.DeletePolicy(as, policies[1].ID), tn.DeleteSLA(as, sla.ID), tn.DeleteBudget(as, budget.ID),
		tn.DeleteAgent(as, agent.ID), tn.RemoveMember(as, team.ID, "u2"), tn.DeleteTeam(as, team.ID),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(tn.ApplyUserEvent(as, store.UserEvent{Type: store.UserCreated, UserID: "u3", CreatedAt: time.Unix(1_700_000_000, 0)}))(t)
	// A change that fails changes nothing, and writes no event.
	if _, err := tn.CreatePolicies(as, store.PolicyCreate{Name: "new"}, store.PolicyCreate{Name: "p"}); store.KindOf(err) != store.Conflict {
		t.Fatalf("a taken name: %v", err)
	}
	// An agent that a trace registers is no change by an administrator.
	ingest(t, tn, store.IngestResult{Accepted: 1}, store.Trace{ID: "1", AgentName: "registered", Status: store.TraceSuccess})

	list, _, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range slices.Backward(list[:len(list)-before]) {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Before != "", e.After != "", " ", strings.Join(e.Changed, ",")))
		if e.By != by || e.ID == "" || e.CreatedAt.IsZero() || !e.CreatedAt.Equal(e.CreatedAt.Truncate(time.Microsecond)) {
			t.Errorf("event %+v", e)
		}
	}
	want := []string{
		"team false true description,name,scopes", "team true true scopes", "member false true role,teamId,userId",
		"agent false true configYaml,description,environment,modelName,modelProvider,name", "agent true true configYaml",
		"budget false true agentId,limitUsd,name,period", "budget true true limitUsd",
		"slaTarget false true agentId,evaluationPeriod,name",
		"policy false true action,condition,enabled,name,on,phase,redactionStrategy", "policy false true action,condition,enabled,name,on,phase,redactionStrategy",
		"policy true true enabled", "key false true createdBy,name,prefix,scope,teamId", "key true false createdBy,name,prefix,scope,teamId",
		"policy true false action,condition,enabled,name,on,phase,redactionStrategy", "slaTarget true false agentId,evaluationPeriod,name",
		"budget true false agentId,limitUsd,name,period", "agent true false configYaml,description,environment,modelName,modelProvider,name",
		"member true false role,teamId,userId", "team true false description,name,scopes", "user false true displayName,email,role,status",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	wantChain(t, tn, list)

	// Filters and pages.
	of := func(f store.AuditEventFilter) int { return len(eventsOf(t, tn, f)) }
	for what, n := range map[string][2]int{
		"kind":      {of(store.AuditEventFilter{Kind: "budget"}), 3},
		"object":    {of(store.AuditEventFilter{ObjectID: agent.ID}), 3},
		"key":       {of(store.AuditEventFilter{Actor: "key_1"}), len(want)},
		"user":      {of(store.AuditEventFilter{Actor: "u1", Kind: "team"}), 3},
		"nobody":    {of(store.AuditEventFilter{Actor: "u9"}), 0},
		"until":     {of(store.AuditEventFilter{Until: list[3].CreatedAt}), len(list) - 3},
		"since":     {of(store.AuditEventFilter{Since: list[3].CreatedAt}), 4},
		"the other": {len(eventsOf(t, NewTenant(t, o, "other"), store.AuditEventFilter{Actor: "key_1"})), 0},
	} {
		if n[0] != n[1] {
			t.Errorf("%s: %d events, want %d", what, n[0], n[1])
		}
	}
	var paged []store.AuditEvent
	for page := (store.Page{Limit: 4}); ; {
		part, before, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, page)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 {
			break
		}
		paged = append(paged, part...)
		last := part[len(part)-1]
		if last.Link(before) != last.Hash {
			t.Errorf("the hash before page %d is wrong", len(paged))
		}
		page.After = store.Place{ID: last.ID}
	}
	if !reflect.DeepEqual(paged, list) {
		t.Errorf("%d events page by page, %d at once", len(paged), len(list))
	}

	// Retention removes the oldest events; the chain of the others still verifies.
	res := must(tn.ApplyRetention(ctx, store.RetentionBounds{AuditEvents: list[5].CreatedAt, Limit: 1000}))(t)
	left := eventsOf(t, tn, store.AuditEventFilter{})
	if len(left)+res.AuditEvents != len(list) || len(left) < 6 || left[len(left)-1].CreatedAt.Before(list[5].CreatedAt) {
		t.Errorf("%d events left of %d, %+v", len(left), len(list), res)
	}
	wantChain(t, tn, left)
}

// wantChain checks that events are one chain, newest first.
func wantChain(t testing.TB, tn Tenant, list []store.AuditEvent) {
	t.Helper()
	_, before, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(list) {
		if e.Link(before) != e.Hash {
			t.Errorf("event %s of %s %s is not behind %q", e.ID, e.Kind, e.ObjectID, before)
		}
		before = e.Hash
	}
}

// testIfMatch checks that a change with a stale digest is rejected and changes
// nothing.
func testIfMatch(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	p := must(tn.CreatePolicies(ctx, store.PolicyCreate{Name: "p"}))(t)[0]
	read := p.Object().Digest()
	if again := must(tn.GetPolicy(ctx, p.ID))(t); again.Object().Digest() != read {
		t.Errorf("the digest of what was made is %s, of what is read %s", read, again.Object().Digest())
	}
	on, name := true, "q"
	p = must(tn.UpdatePolicy(store.IfMatch(ctx, []string{"x", read}), p.ID, store.PolicyUpdate{Enabled: &on}, nil))(t)
	events := len(eventsOf(t, tn, store.AuditEventFilter{}))
	stale := store.IfMatch(ctx, []string{read})
	_, err := tn.UpdatePolicy(stale, p.ID, store.PolicyUpdate{Name: &name}, nil)
	wantKind(t, err, store.Outdated, "")
	wantKind(t, tn.DeletePolicy(stale, p.ID), store.Outdated, "")
	if got := must(tn.GetPolicy(ctx, p.ID))(t); got.Name != "p" || !got.Enabled {
		t.Errorf("after refusals the policy is %+v", got)
	}
	if n := len(eventsOf(t, tn, store.AuditEventFilter{})); n != events {
		t.Errorf("%d events, %d before the refusals", n, events)
	}
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "t"}))(t)
	wantKind(t, tn.DeleteTeam(stale, team.ID), store.Outdated, "")
	if err := tn.DeletePolicy(store.IfMatch(ctx, []string{p.Object().Digest()}), p.ID); err != nil {
		t.Error(err)
	}
}

// testGovernanceRevision checks that the revision changes with the policies, budgets
// and agents of its own tenant, and that no value repeats.
func testGovernanceRevision(t testing.TB, o Opened) {
	tn, other := NewTenant(t, o, "t"), NewTenant(t, o, "other")
	theirs := must(other.GovernanceRevision(ctx))(t)
	seen := map[string]string{must(tn.GovernanceRevision(ctx))(t): "at first"}
	changed := func(what string, err error) {
		t.Helper()
		r, rerr := tn.GovernanceRevision(ctx)
		if err := errors.Join(err, rerr); err != nil {
			t.Fatal(what, err)
		}
		if before, ok := seen[r]; ok {
			t.Errorf("%s: the revision is that of %s", what, before)
		}
		seen[r] = what
	}
	agent, err := tn.CreateAgent(ctx, store.AgentCreate{Name: "a"})
	changed("an agent", err)
	name, off := "b", false
	_, err = tn.UpdateAgent(ctx, agent.ID, store.AgentUpdate{Name: &name})
	changed("another name", err)
	b, err := tn.CreateBudget(ctx, store.BudgetCreate{Name: "b", Payer: store.Payer{AgentID: agent.ID}, Period: store.Daily, Limit: 1})
	changed("a budget", err)
	limit := store.NanoUSD(2)
	_, err = tn.UpdateBudget(ctx, b.ID, store.BudgetUpdate{Limit: &limit})
	changed("another limit", err)
	p, err := tn.CreatePolicies(ctx, store.PolicyCreate{Name: "p", Enabled: true})
	changed("a policy", err)
	_, err = tn.UpdatePolicy(ctx, p[0].ID, store.PolicyUpdate{Enabled: &off}, nil)
	changed("a policy that is off", err)
	changed("no budget", tn.DeleteBudget(ctx, b.ID))
	changed("no policy", tn.DeletePolicy(ctx, p[0].ID))
	changed("no agent", tn.DeleteAgent(ctx, agent.ID))

	now := must(tn.GovernanceRevision(ctx))(t)
	must(tn.CreateTeam(ctx, store.TeamCreate{Name: "t"}))(t)
	if _, err := tn.UpdatePolicy(context.Background(), "pol_none", store.PolicyUpdate{}, nil); store.KindOf(err) != store.NotFound {
		t.Error(err)
	}
	if r := must(tn.GovernanceRevision(ctx))(t); r != now {
		t.Error("the revision changed although nothing that gateways enforce has changed")
	}
	if r := must(other.GovernanceRevision(ctx))(t); r != theirs {
		t.Error("the revision of another tenant changed")
	}
}

// eventsOf returns all events that pass a filter.
func eventsOf(t testing.TB, tn Tenant, f store.AuditEventFilter) []store.AuditEvent {
	t.Helper()
	list, _, err := tn.ListAuditEvents(ctx, f, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
