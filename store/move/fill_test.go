//go:build unix

package move_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"svc/store"
)

// fillTime is about the time of the traces of fill: the current time, because stores
// date the records that they create.
var fillTime = time.Now().UTC().Truncate(time.Second)

// fill creates data of every kind for several tenants, with names beyond ASCII and
// times finer than a millisecond. The traces are of the last days.
func fill(t testing.TB, st store.Engine, traces, days int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	if err := st.SetWatermark(ctx, "mark", fillTime.Add(123456789)); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"first", "zweite Bücherei 🦉", "ταμείο", "empty"} {
		info, key, err := st.CreateTenant(ctx, store.TenantCreate{Name: name, OrgID: []string{"", "org ñ", "org_3", ""}[i],
			Key: &store.KeyCreate{Name: "schlüssel", Scope: store.ScopeAPI, Prefix: "svc_api_abcd", Digest: store.DigestKey("secret of " + name)}})
		if err != nil {
			t.Fatal(err)
		}
		if name != "empty" {
			fillTenant(t, st, info.ID, key.ID, r)
			fillTraces(t, st.Tenant(info.ID), st.TracesOf(info.ID), traces, days, r)
		}
	}
}

func fillTenant(t testing.TB, st store.Engine, id, key string, r *rand.Rand) {
	t.Helper()
	tn := st.Tenant(id)
	as := store.ChangedBy(ctx, store.By{KeyID: key, Route: "/api/things"})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		for _, signer := range []string{"", fmt.Sprint("key of ", i)} {
			_, _, err := tn.ReportAuditHead(ctx, store.AuditHead{Gateway: fmt.Sprint("gätewäy ", i), Trail: "t", Seq: 7, Hash: fmt.Sprintf("%064x", i), PublicKey: signer})
			check(err)
		}
		_, _, err := tn.ReportAuditHead(ctx, store.AuditHead{Gateway: fmt.Sprint("gätewäy ", i), Trail: "t", Seq: 9, Hash: fmt.Sprintf("%064x", 9), PublicKey: "another"})
		if err == nil {
			t.Fatal("a head that another key signed was taken")
		}
	}
	tn.RecordKeyUse(key, fillTime.Add(-time.Minute+987654321))
	team := must(tn.CreateTeam(as, store.TeamCreate{Name: "team ☕", Scopes: []string{"agents:read"}}))(t)
	for i, event := range []store.UserEventType{store.UserCreated, store.UserUpdated, store.UserSuspended, store.UserCreated} {
		_, err := tn.ApplyUserEvent(as, store.UserEvent{Type: event, CreatedAt: fillTime.Add(-time.Hour + time.Duration(i)), UserID: fmt.Sprint("user ", i/3), Email: fmt.Sprintf("u%d@x.io", i/3), DisplayName: "Zoë"})
		check(err)
	}
	for _, m := range []store.MemberAdd{{UserID: "user 1"}, {Email: "invited@x.io", Role: "viewer"}} {
		_, err := tn.AddMember(as, team.ID, m)
		check(err)
	}
	_, err := tn.CreateKey(as, store.KeyCreate{Name: "of the team", Scope: store.ScopeAPI, Prefix: "svc_api_x", TeamID: team.ID, CreatedBy: "user 1", Digest: store.DigestKey(id + " second")})
	check(err)
	var agents []store.Agent
	for i := range 4 {
		agents = append(agents, must(tn.CreateAgent(as, store.AgentCreate{Name: fmt.Sprint("agent ü ", i), Environment: "prod", TeamID: []string{team.ID, ""}[i%2], ConfigYAML: []string{"", "a: ä\n"}[i%2], DeployedBy: "user 1"}))(t))
	}
	config, renamed := "b: 2", "renamed 東京"
	_, err = tn.UpdateAgent(as, agents[1].ID, store.AgentUpdate{Name: &renamed, ConfigYAML: &config, DeployedBy: "user 1"})
	check(err)
	check(tn.DeleteAgent(as, agents[2].ID))
	_, err = tn.CreateBudget(as, store.BudgetCreate{Name: "büdget", Payer: store.Payer{AgentID: agents[0].ID}, Period: store.Daily, Limit: 12_345_678_901})
	check(err)
	_, err = tn.CreateBudget(as, store.BudgetCreate{Name: "of the team", Payer: store.Payer{Scope: store.TeamBudget, TeamID: team.ID}, Period: store.Monthly, Limit: 1, WarnAt: []int{50}})
	check(err)
	p99 := 1.25
	sla := must(tn.CreateSLA(as, store.SLACreate{Name: "sla", AgentID: agents[0].ID, P99LatencyMs: &p99, EvaluationPeriod: "1h"}))(t)
	for i := range 3 {
		_, err = tn.RecordViolation(ctx, store.SLAViolation{SLAID: sla.ID, Type: "latency", PeriodStart: fillTime.Add(time.Duration(i) * time.Hour), PeriodEnd: fillTime.Add(time.Duration(i+1) * time.Hour)})
		check(err)
	}
	_, err = tn.CreatePolicies(as, store.PolicyCreate{Name: "política", Phase: "request", Message: "no — never", Enabled: true},
		store.PolicyCreate{Name: "z", Phase: "response", Condition: store.PolicyCondition{Type: "pii_detected", Entities: []string{"EMAIL"}}})
	check(err)
	for i, decision := range []string{"", store.DecisionGrant, store.DecisionDeny} {
		call := store.ApprovalCall{Digest: fmt.Sprintf("%064x", i), KeyTag: "00c0ffee", Tool: "zahle 💶", Method: "tools/call", AgentName: "agent ü 0", Principal: "oauth:Zoë",
			Upstream: "bank", Gateway: "gätewäy", ValidFor: time.Hour, Expires: time.Hour, NotSelf: store.SelfAllowed, Show: store.ShowAll,
			Reasons: []store.ApprovalReason{{RuleID: "r", Note: "prüfe"}}, Arguments: []store.ApprovalArgument{{Pointer: "/betrag", Value: "12", Tag: "00000001"}}}
		made, err := tn.RequestApproval(ctx, key, call)
		check(err)
		if decision != "" {
			_, err = tn.DecideApproval(as, made.ID, store.ApprovalDecision{KeyID: key, Decision: decision})
			check(err)
		}
	}
	a := attempt(key)
	_, err = tn.BeginAttempt(ctx, a)
	check(err)
	check(tn.FinishAttempt(ctx, a, store.StoredResponse{Status: 201, ContentType: "application/json", Body: []byte("made")}))
	_, _, err = st.AcquireLease(ctx, "lease of "+id, "me", time.Minute)
	check(err)
}

// fillTraces stores traces of some days; retention removes the oldest.
func fillTraces(t testing.TB, tn store.Tenant, tr store.TenantTraces, n, days int, r *rand.Rand) {
	t.Helper()
	policies, _, err := tn.ListPolicies(ctx, store.PolicyFilter{}, store.Page{})
	if err != nil {
		t.Fatal(err)
	}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	var list []store.Trace
	for i := range n {
		one := store.Trace{ID: fmt.Sprintf("%s %d", pick("t", "ト"), i), AgentName: pick("agent ü 0", "renamed 東京", "agent ü 1", "auto 1", "auto 2"), Status: store.TraceSuccess,
			Environment: pick("", "prod", "staging ß"), SessionID: pick("", "s1", "018f3c5e-7b1a-7c3d-9e2f-5a6b7c8d9e0f"), ModelProvider: pick("", "p"), ModelName: pick("", "m ∞"),
			ToolName: pick("", "tool a", "tool β"), InputTokens: r.Int64N(1000), OutputTokens: r.Int64N(1000), Cost: store.NanoUSD(r.Int64N(1e9)),
			Duration: time.Duration(r.Int64N(int64(time.Minute))), InjectionScore: r.Float64(), CreatedAt: fillTime.Add(-time.Duration(r.Int64N(int64(days) * int64(24*time.Hour))))}
		switch i % 7 {
		case 0:
			one.Status, one.Blocked, one.ErrorKind, one.RuleID, one.Reason = store.TraceError, true, "policy", "rule", "grund ö"
		case 1:
			one.PIIDetected, one.RequestID, one.Principal = []string{"EMAIL_ADDRESS", "PHONE"}, fmt.Sprint("req", i), "клиент"
			one.ClientName, one.ClientVersion = "программа", "1.2"
			one.Approval = store.TraceApproval{Status: "continued", ID: fmt.Sprint("apr_", i), By: "боб"}
			one.Labels, one.Sets = []string{"private", "untrusted"}, []string{"private"}
			one.InputTokens, one.CacheReadTokens, one.CacheCreationTokens = 100, 40, 50
		case 2:
			one.PoliciesFired = []store.PolicyFired{{ID: policies[i%len(policies)].ID, Name: "política", Action: "redact"}}
			one.QualityScores, one.Spans = []store.QualityScore{{Scorer: "s", Score: 1.0 / 3}}, []store.Span{{Stage: "provider", Duration: 5}, {Stage: "étape", Duration: 7}}
		case 3:
			one.ToolCalls = []store.ToolCalls{{Tool: "tool γ", Calls: 3}, {Tool: "tool a", Calls: 1}}
		}
		list = append(list, one)
	}
	for len(list) > 0 {
		k := min(len(list), 1+r.IntN(200))
		if _, err := tr.Ingest(ctx, store.Batch{Traces: list[:k]}); err != nil {
			t.Fatal(err)
		}
		list = list[k:]
	}
	for more := true; more; {
		res, err := tr.Expire(ctx, store.ExpireBounds{Traces: fillTime.AddDate(0, 0, -days*3/4), Minutes: fillTime.AddDate(0, 0, -days/4), Budget: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		more = res.More
	}
}
