package bolt

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestSchema compares the tree of a store that has everything with
// testdata/schema.golden: every bucket, and what its keys and values look like. A
// difference may make existing files unreadable; see buckets.go.
func TestSchema(t *testing.T) {
	s := openTemp(t, Options{Now: newClock().Now, NoSync: true})
	fillEverything(t, s)
	var b strings.Builder
	err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
			dump(&b, "", string(name), bucket)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "schema.golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the tree differs from %s (rewrite it with -update):\n%s", path, b.String())
	}
	// The comments of the two packages name every bucket.
	comment := ""
	for _, name := range []string{"doc.go", "../record/record.go"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(source), "\npackage ")
		comment += text
	}
	for _, b := range slices.Concat(topBuckets, tenantBuckets) {
		if !strings.Contains(comment, b.name) {
			t.Errorf("no comment describes %s", b.name)
		}
	}
}

// dump prints a bucket; for resources it prints the form of one record.
func dump(b *strings.Builder, indent, name string, bucket *bbolt.Bucket) {
	shapes := map[string]bool{}
	var nested []string
	err := bucket.ForEach(func(k, v []byte) error {
		if v == nil {
			nested = append(nested, string(k))
			return nil
		}
		shapes[shape(k, v)] = true
		return nil
	})
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(b, "%s%s\n", indent, name)
	var lines []string
	for s := range shapes {
		lines = append(lines, s)
	}
	slices.Sort(lines)
	for _, l := range lines {
		fmt.Fprintf(b, "%s  %s\n", indent, l)
	}
	for _, n := range nested {
		dump(b, indent+"  ", n, bucket.Bucket([]byte(n)))
	}
}

// shape returns the key's length and the form of the value: the fields of a record, or
// a length.
func shape(k, v []byte) string {
	key := fmt.Sprintf("%d bytes", len(k))
	if len(k) > 0 && k[0] != 0 && !slices.ContainsFunc(k, func(c byte) bool { return c < ' ' && c != 0 || c > '~' }) {
		key = strings.ReplaceAll(string(k), "\x00", `\0`)
		if i := strings.LastIndexByte(key, '_'); i > 0 && len(key)-i > 20 {
			key = key[:i] + "_…"
		}
		if i := strings.Index(key, "_0"); i > 0 {
			key = key[:i] + "_…"
		}
	}
	var record map[string]any
	if json.Unmarshal(v, &record) == nil {
		return key + " → " + strings.Join(fieldsOf(record), " ")
	}
	return fmt.Sprintf("%s → %d bytes", key, len(v))
}

func fieldsOf(record map[string]any) []string {
	var names []string
	for name, v := range record {
		if inner, ok := v.(map[string]any); ok {
			name += "{" + strings.Join(fieldsOf(inner), " ") + "}"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// fillEverything creates one of every resource.
func fillEverything(t *testing.T, s *Store) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, key, err := s.CreateTenant(ctx, store.TenantCreate{ID: "t", Name: "t", OrgID: "org",
		Key: &store.KeyCreate{Name: "k", Scope: store.ScopeAPI, Prefix: "svc_api_abcd", Digest: store.DigestKey("secret")}})
	check(err)
	tn := s.tenant("t")
	for _, key := range []string{"", "key"} {
		_, _, err = tn.ReportAuditHead(ctx, store.AuditHead{Gateway: "g", Trail: "t", Seq: 1, Hash: strings.Repeat("a", 64), PublicKey: key})
		check(err)
	}
	tn.RecordKeyUse(key.ID, s.now())
	check(s.flushUsed())
	check(tn.CreateSession(ctx, key.ID, store.DigestKey("session")))
	team, err := tn.CreateTeam(ctx, store.TeamCreate{Name: "team"})
	check(err)
	_, err = tn.ApplyUserEvent(ctx, store.UserEvent{Type: store.UserCreated, CreatedAt: s.now(), UserID: "u", Email: "u@x.io"})
	check(err)
	_, err = tn.AddMember(ctx, team.ID, store.MemberAdd{UserID: "u"})
	check(err)
	agent, err := tn.CreateAgent(ctx, store.AgentCreate{Name: "agent", ConfigYAML: "a: 1"})
	check(err)
	present := "agent renamed"
	_, err = tn.UpdateAgent(ctx, agent.ID, store.AgentUpdate{Name: &present})
	check(err)
	gone, err := tn.CreateAgent(ctx, store.AgentCreate{Name: "gone"})
	check(err)
	check(tn.DeleteAgent(ctx, gone.ID))
	_, err = tn.CreateBudget(ctx, store.BudgetCreate{Name: "budget", Payer: store.Payer{AgentID: agent.ID}, Period: store.Daily, Limit: 1})
	check(err)
	p99 := 1.0
	sla, err := tn.CreateSLA(ctx, store.SLACreate{Name: "sla", AgentID: agent.ID, P99LatencyMs: &p99, EvaluationPeriod: "1h"})
	check(err)
	_, err = tn.RecordViolation(ctx, store.SLAViolation{SLAID: sla.ID, Type: "latency", PeriodStart: time.Unix(1_700_000_000, 0)})
	check(err)
	policies, err := tn.CreatePolicies(ctx, store.PolicyCreate{Name: "policy"})
	check(err)
	call := store.ApprovalCall{Digest: "d", KeyTag: "t", Tool: "pay", AgentName: "agent", Principal: "key:p", ValidFor: time.Hour, Expires: time.Hour, Show: store.ShowAll,
		Reasons: []store.ApprovalReason{{RuleID: "r"}}, Arguments: []store.ApprovalArgument{{Pointer: "/a", Value: "1"}}}
	pending, err := tn.RequestApproval(ctx, key.ID, call)
	check(err)
	_, err = tn.DecideApproval(ctx, pending.ID, store.ApprovalDecision{KeyID: key.ID, Decision: store.DecisionDeny})
	check(err)
	call.Digest = "e"
	_, err = tn.RequestApproval(ctx, key.ID, call)
	check(err)
	attempt := store.IdempotentRequest{KeyID: key.ID, Route: "POST /api/teams", Token: "x"}
	_, err = tn.BeginAttempt(ctx, attempt)
	check(err)
	check(tn.FinishAttempt(ctx, attempt, store.StoredResponse{Status: 201}))
	_, _, err = s.AcquireLease(ctx, "lease", "me", time.Minute)
	check(err)
	check(s.SetWatermark(ctx, "mark", s.now()))
	mustIngest(t, tn, []store.Trace{
		{ID: "018f3c5e-7b1a-7c3d-9e2f-5a6b7c8d9e0f", AgentID: agent.ID, Status: store.TraceSuccess, ToolName: "tool", Environment: "production",
			ModelProvider: "p", ModelName: "m", CreatedAt: s.now().AddDate(0, 0, -1), PoliciesFired: []store.PolicyFired{{ID: policies[0].ID}}},
		{ID: "018f3c5e-7b1a-7c3d-9e2f-5a6b7c8d9e10", AgentName: "auto", Status: store.TraceSuccess, CreatedAt: s.now()},
	})
	res, err := tn.Expire(ctx, store.ExpireBounds{Traces: s.now().Add(-time.Hour), Minutes: s.now().Add(-time.Hour)})
	check(err)
	if res.Traces != 1 || res.Minutes != 1 {
		t.Fatalf("trim %+v", res)
	}
}
