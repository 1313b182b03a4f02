package storetest

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"svc/store"
)

// declare is a plan that creates one resource of each kind.
func declare(all store.Contents, p store.Planner) ([]store.Change, error) {
	agent := store.AgentCreate{Name: "bot", ConfigYAML: "model: x"}.Make(p.NewID(store.PrefixAgent), p.Now)
	agent.ConfigYAML, agent.Set = "model: x", "prod"
	team := store.TeamCreate{Name: "ops", Scopes: []string{"agents:read"}}.Make(p.NewID(store.PrefixTeam), p.Now)
	budget := store.BudgetCreate{Name: "b", Payer: store.Payer{AgentID: agent.ID}, Period: store.Daily, Limit: 5}.Make(p.NewID(store.PrefixBudget), p.Now)
	rate := 1.5
	sla := store.SLACreate{Name: "s", AgentID: agent.ID, ErrorRatePercent: &rate, EvaluationPeriod: "1h"}.Make(p.NewID(store.PrefixSLA), p.Now)
	first := store.PolicyCreate{Name: "z", Phase: "request", Condition: store.PolicyCondition{Type: "pii_detected", Entities: []string{"EMAIL"}}}.Make(p.NewID(store.PrefixPolicy), p.Now)
	second := store.PolicyCreate{Name: "a", Phase: "response"}.Make(p.NewID(store.PrefixPolicy), p.Now)
	return []store.Change{
		{After: &team}, {After: &agent, FormerNames: []string{"robot"}, DeployedBy: "u1"}, {After: &first}, {After: &second}, {After: &budget}, {After: &sla},
	}, nil
}

// testApply creates, changes and deletes resources of every kind in one call.
func testApply(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	as := store.ChangedBy(ctx, store.By{KeyID: "key_1", Route: "/api/apply"})
	events := len(eventsOf(t, tn, store.AuditEventFilter{}))
	revision := must(tn.GovernanceRevision(ctx))(t)
	changes := must(tn.Apply(as, declare))(t)
	if len(changes) != 6 {
		t.Fatalf("%d changes", len(changes))
	}
	all := must(tn.Contents(ctx))(t)
	if len(all.Teams) != 1 || len(all.Agents) != 1 || len(all.Policies) != 2 || len(all.Budgets) != 1 || len(all.SLAs) != 1 {
		t.Fatalf("contents %+v", all)
	}
	agent := all.Agents[0]
	if agent.ConfigYAML != "model: x" || agent.Set != "prod" || all.Policies[0].Name != "z" || all.Budgets[0].AgentName != "bot" || all.SLAs[0].AgentName != "bot" {
		t.Errorf("contents %+v", all)
	}
	if want := []store.AgentAlias{{Alias: "robot", AgentID: agent.ID, AgentName: "bot"}}; !reflect.DeepEqual(all.Aliases, want) {
		t.Errorf("former names %+v", all.Aliases)
	}
	if again := must(tn.GovernanceRevision(ctx))(t); again == revision {
		t.Error("the governance revision did not change")
	}
	// Every read returns the resources as they were applied.
	got := must(tn.GetAgent(ctx, agent.ID))(t)
	if !reflect.DeepEqual(got, agent) {
		t.Errorf("the agent is %+v, in the contents %+v", got, agent)
	}
	if p := must(tn.GetPolicy(ctx, all.Policies[0].ID))(t); !reflect.DeepEqual(p, all.Policies[0]) {
		t.Errorf("the policy is %+v, in the contents %+v", p, all.Policies[0])
	}
	if list, _, err := tn.ListDeployments(ctx, agent.ID, store.Page{}); err != nil || len(list) != 1 || list[0].DeployedBy != "u1" {
		t.Errorf("deployments %+v, %v", list, err)
	}
	must(tn.AddMember(as, all.Teams[0].ID, store.MemberAdd{UserID: "u2"}))(t)

	// An error of the plan changes nothing.
	refused := errors.New("refused")
	if _, err := tn.Apply(as, func(all store.Contents, p store.Planner) ([]store.Change, error) {
		list, _ := declare(all, p)
		return list, refused
	}); !errors.Is(err, refused) {
		t.Errorf("a plan with an error: %v", err)
	}
	// No changes are no error, and no event.
	if list := must(tn.Apply(as, func(store.Contents, store.Planner) ([]store.Change, error) { return nil, nil }))(t); len(list) != 0 {
		t.Errorf("%d changes of none", len(list))
	}
	// Change every resource.
	must(tn.Apply(as, func(all store.Contents, p store.Planner) ([]store.Change, error) {
		team, agent, budget, policy := all.Teams[0], all.Agents[0], all.Budgets[0], all.Policies[1]
		team.Scopes, agent.ConfigYAML, budget.Limit, policy.Enabled = []string{}, "model: y", 7, true
		list := []store.Change{{Before: &all.Teams[0], After: &team}, {Before: &all.Agents[0], After: &agent, DeployedBy: "u2"},
			{Before: &all.Budgets[0], After: &budget}, {Before: &all.Policies[1], After: &policy}, {Before: &all.SLAs[0]}}
		return list, nil
	}))(t)
	all = must(tn.Contents(ctx))(t)
	if all.Teams[0].MemberCount != 1 || len(all.Teams[0].Scopes) != 0 || all.Agents[0].ConfigYAML != "model: y" || all.Budgets[0].Limit != 7 ||
		!all.Policies[1].Enabled || len(all.SLAs) != 0 {
		t.Errorf("changed contents %+v", all)
	}
	if list, _, err := tn.ListDeployments(ctx, agent.ID, store.Page{}); err != nil || len(list) != 2 || list[0].DeployedBy != "u2" {
		t.Errorf("deployments %+v, %v", list, err)
	}
	// Delete every resource; the names are free again.
	must(tn.Apply(as, func(all store.Contents, _ store.Planner) (list []store.Change, err error) {
		return []store.Change{{Before: &all.Policies[0]}, {Before: &all.Policies[1]}, {Before: &all.Budgets[0]}, {Before: &all.Agents[0]}, {Before: &all.Teams[0]}}, nil
	}))(t)
	if all = must(tn.Contents(ctx))(t); len(all.Teams)+len(all.Agents)+len(all.Aliases)+len(all.Policies)+len(all.Budgets)+len(all.SLAs) != 0 {
		t.Errorf("contents after all was deleted %+v", all)
	}
	must(tn.Apply(as, declare))(t)

	list := eventsOf(t, tn, store.AuditEventFilter{})
	var kinds []string
	for _, e := range slices.Backward(list[:len(list)-events]) {
		sign := "~"
		switch {
		case e.Before == "":
			sign = "+"
		case e.After == "":
			sign = "-"
		}
		kinds = append(kinds, sign+e.Kind)
	}
	made := "+team +agent +policy +policy +budget +slaTarget"
	want := made + " +member ~team ~agent ~budget ~policy -slaTarget -policy -policy -budget -agent -team " + made
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("events are\n%s\nwant\n%s", got, want)
	}
	wantChain(t, tn, list)
	if other := must(NewTenant(t, o, "other").Contents(ctx))(t); len(other.Agents) != 0 {
		t.Errorf("another tenant has %+v", other)
	}
}

// testApplyAtOnce runs several applies concurrently: each plan sees the resources of
// those before it, and of all that create the same resource one does.
func testApplyAtOnce(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	var all sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 8 {
		all.Go(func() {
			list, err := tn.Apply(ctx, func(now store.Contents, p store.Planner) ([]store.Change, error) {
				if len(now.Agents) > 0 {
					return nil, nil
				}
				return declare(now, p)
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("apply: %v", err)
			}
			if len(list) > 0 {
				made++
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("%d of 8 made the same", made)
	}
	if now := must(tn.Contents(ctx))(t); len(now.Policies) != 2 || len(now.Agents) != 1 {
		t.Errorf("contents %+v", now)
	}
}

// testApplyFault makes the commit of an apply fail: nothing of it is stored.
func testApplyFault(t testing.TB, o Opened) {
	if o.Fail == nil {
		return
	}
	tn := NewTenant(t, o, "t")
	events := len(eventsOf(t, tn, store.AuditEventFilter{}))
	o.Fail(func() error { return errors.New("disk full") })
	if _, err := tn.Apply(ctx, declare); err == nil {
		t.Error("an apply whose commit failed has no error")
	}
	o.Fail(nil)
	now := must(tn.Contents(ctx))(t)
	if n := len(eventsOf(t, tn, store.AuditEventFilter{})); n != events || len(now.Teams)+len(now.Agents)+len(now.Policies)+len(now.Budgets)+len(now.SLAs) != 0 {
		t.Errorf("%d events more, contents %+v", n-events, now)
	}
	must(tn.Apply(ctx, declare))(t)
}
