package storetest

import (
	"fmt"
	"testing"
	"time"

	"svc/store"
	"svc/store/record"
)

// Bench measures the calls behind common requests of the REST API: writes with their audit
// event, Authenticate, and lists.
func Bench(b *testing.B, s store.Engine) {
	ok := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	secret := store.DigestKey("bench")
	info, _, err := s.CreateTenant(ctx, store.TenantCreate{Name: "bench", Key: &store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Digest: secret}})
	ok(err)
	tn := s.Tenant(info.ID)
	team, err := tn.CreateTeam(ctx, store.TeamCreate{Name: "team", Scopes: []string{"agents:read"}})
	ok(err)
	limited := store.DigestKey("limited")
	_, err = tn.CreateKey(ctx, store.KeyCreate{Name: "l", Scope: store.ScopeAPI, Digest: limited, TeamID: team.ID, CreatedBy: store.DefaultAdminID})
	ok(err)
	for i := range 400 {
		_, err := tn.AddMember(ctx, team.ID, store.MemberAdd{Email: fmt.Sprintf("member%d@example.com", i)})
		ok(err)
	}
	agent, err := tn.CreateAgent(ctx, store.AgentCreate{Name: "agent", Environment: "production"})
	ok(err)
	for i := range 50 {
		_, err := tn.CreateBudget(ctx, store.BudgetCreate{Name: fmt.Sprint("budget ", i), Payer: store.Payer{AgentID: agent.ID}, Period: store.Daily, Limit: 1})
		ok(err)
	}
	policies, err := tn.CreatePolicies(ctx, store.PolicyCreate{Name: "policy", Enabled: true})
	ok(err)
	other, err := tn.CreateTeam(ctx, store.TeamCreate{Name: "other"})
	ok(err)
	n := 0
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"Authenticate", func() error { _, err := s.Authenticate(ctx, secret); return err }},
		{"AuthenticateTeam", func() error { _, err := s.Authenticate(ctx, limited); return err }},
		{"GovernanceRevision", func() error { _, err := tn.GovernanceRevision(ctx); return err }},
		{"GetTeam", func() error { _, err := tn.GetTeam(ctx, team.ID); return err }},
		{"GetAgent", func() error { _, err := tn.GetAgent(ctx, agent.ID); return err }},
		{"ListMembers400", func() error { _, err := tn.ListMembers(ctx, team.ID); return err }},
		{"ListBudgets50", func() error { _, err := tn.ListBudgets(ctx); return err }},
		{"ListTeams", func() error { _, _, err := tn.ListTeams(ctx, store.Page{Limit: 50}); return err }},
		{"ListAuditEvents50", func() error {
			_, _, err := tn.ListAuditEvents(ctx, store.AuditEventFilter{}, store.Page{Limit: 51})
			return err
		}},
		{"CreateTeam", func() error {
			_, err := tn.CreateTeam(ctx, store.TeamCreate{Name: fmt.Sprint("team ", n)})
			return err
		}},
		{"UpdateTeam", func() error {
			text := fmt.Sprint(n)
			_, err := tn.UpdateTeam(ctx, team.ID, store.TeamUpdate{Description: &text})
			return err
		}},
		{"AddMember", func() error {
			_, err := tn.AddMember(ctx, other.ID, store.MemberAdd{Email: fmt.Sprintf("new%d@example.com", n)})
			return err
		}},
		{"UpdateAgent", func() error {
			text := fmt.Sprint(n)
			_, err := tn.UpdateAgent(ctx, agent.ID, store.AgentUpdate{Description: &text})
			return err
		}},
		{"UpdatePolicy", func() error {
			text := fmt.Sprint(n)
			_, err := tn.UpdatePolicy(ctx, policies[0].ID, store.PolicyUpdate{Message: &text}, nil)
			return err
		}},
		{"CreateKey", func() error {
			_, err := tn.CreateKey(ctx, store.KeyCreate{Name: "n", Scope: store.ScopeAPI, Digest: store.DigestKey(fmt.Sprint("key ", n)), CreatedBy: store.DefaultAdminID})
			return err
		}},
		{"UserEvent", func() error {
			_, err := tn.ApplyUserEvent(ctx, store.UserEvent{Type: store.UserUpdated, UserID: "u", DisplayName: fmt.Sprint(n), CreatedAt: time.Unix(1_700_000_000+int64(n), 0)})
			return err
		}},
		{"ReportAuditHead", func() error {
			_, _, err := tn.ReportAuditHead(ctx, store.AuditHead{Gateway: "g", Trail: "t", Seq: uint64(n), Hash: fmt.Sprintf("%064d", n)})
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				n++
				ok(c.do())
			}
		})
	}
}

// BenchAuditEvents writes n events of administrators, and lists pages of 51 of them.
func BenchAuditEvents(b *testing.B, e record.Engine, tenant string, n int) {
	tn := record.Of(e, tenant)
	for i := 0; i < n; {
		err := e.Update(ctx, tenant, func(tx record.Tx) error {
			for range min(20_000, n-i) {
				as := store.ChangedBy(ctx, store.By{KeyID: fmt.Sprint("key_", i%3), KeyPrefix: "svc_api_abcd", UserID: fmt.Sprint("usr_", i%7), Address: "192.0.2.1",
					RequestID: "req", Method: "PUT", Route: "/api/policies/{id}"})
				o := &store.Object{Kind: []string{"policy", "agent", "key"}[i%3], ID: fmt.Sprint("pol_", i%5000), Name: "n", Fields: map[string]any{"name": i}}
				if i == n/2 {
					o.Kind = "team"
				}
				if err := tn.Changed(as, tx, nil, o, false); err != nil {
					return err
				}
				i++
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	for name, f := range map[string]store.AuditEventFilter{
		"none": {}, "often": {Actor: "key_1"}, "nobody": {Actor: "key_none"}, "one": {Kind: "team"}, "rare pair": {Actor: "key_1", ObjectID: "pol_4711"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := tn.ListAuditEvents(ctx, f, store.Page{Limit: 51}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
