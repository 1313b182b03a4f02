package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"svc/store"
)

// testEngineClock: the store uses its own clock for dates and expiry. The clock of
// the calling process is far from it.
func testEngineClock(t testing.TB, o Opened) {
	o.Clock.Advance(1000 * 24 * time.Hour)
	began := o.Clock.Now()
	tn := NewTenant(t, o, "t")
	agent := newAgent(t, tn, "a")
	config := "v: 1"
	must(tn.UpdateAgent(ctx, agent.ID, store.AgentUpdate{ConfigYAML: &config}))(t)
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "t"}))(t)
	sla := must(tn.CreateSLA(ctx, store.SLACreate{Name: "s", AgentID: agent.ID, EvaluationPeriod: "1h"}))(t)
	must(tn.RecordViolation(ctx, store.SLAViolation{SLAID: sla.ID, Type: "latency"}))(t)
	must(tn.ApplyUserEvent(ctx, store.UserEvent{Type: store.UserCreated, UserID: "u", CreatedAt: began.Add(-time.Hour)}))(t)
	ingest(t, tn, store.IngestResult{Accepted: 1}, store.Trace{ID: "1", AgentName: "b", Status: store.TraceSuccess})
	head, _, err := tn.ReportAuditHead(ctx, store.AuditHead{Gateway: "g", Trail: "t", Seq: 1, Hash: "h"})
	if err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]time.Time{
		"tenant":     must(o.Records.GetTenant(ctx, tn.ID()))(t).CreatedAt,
		"agent":      agent.CreatedAt,
		"updated":    must(tn.GetAgent(ctx, agent.ID))(t).UpdatedAt,
		"deployment": first(tn.ListDeployments(ctx, agent.ID, store.Page{}))[0].DeployedAt,
		"registered": first(tn.ListAgents(ctx, store.AgentFilter{}, store.Page{}))[0].CreatedAt,
		"team":       team.CreatedAt,
		"member":     must(tn.AddMember(ctx, team.ID, store.MemberAdd{UserID: "u"}))(t).JoinedAt,
		"budget":     must(tn.CreateBudget(ctx, store.BudgetCreate{Name: "b", Payer: store.Payer{AgentID: agent.ID}, Period: store.Daily, Limit: 1}))(t).CreatedAt,
		"SLA":        sla.CreatedAt,
		"violation":  first(tn.ListViolations(ctx, store.ViolationFilter{}, store.Page{}))[0].CreatedAt,
		"policy":     must(tn.CreatePolicies(ctx, store.PolicyCreate{Name: "p"}))(t)[0].CreatedAt,
		"key":        first(tn.ListKeys(ctx, store.KeyFilter{}, store.Page{}))[0].CreatedAt,
		"user":       must(tn.GetUser(ctx, "u"))(t).CreatedAt,
		"event":      first(tn.ListUserEvents(ctx, store.Page{}))[0].ReceivedAt,
		"trace":      must(tn.GetTrace(ctx, "1"))(t).CreatedAt,
		"audit head": head.ReportedAt,
	} {
		if at.Before(began) || at.After(o.Clock.Now()) || at.Location() != time.UTC {
			t.Errorf("%s is dated %v, after %v by the store's clock", what, at, began)
		}
	}
	l, ok, err := o.Records.AcquireLease(ctx, "l", "a", time.Minute)
	if err != nil || !ok || l.Until.Before(began.Add(time.Minute)) || l.Until.After(o.Clock.Now().Add(time.Minute)) {
		t.Errorf("lease %+v, %v, %v", l, ok, err)
	}
}

// testFineTimes: times that differ by a nanosecond are distinguished.
func testFineTimes(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	at := o.Clock.Now().UTC().Truncate(time.Second).Add(-time.Hour + 123_456_789)
	var batch []store.Trace
	for i := range 5 { // the later the time, the earlier the commit
		batch = append(batch, store.Trace{ID: fmt.Sprint(4 - i), AgentName: "a", Status: store.TraceSuccess,
			Duration: time.Duration(i) + 1, CreatedAt: at.Add(time.Duration(4 - i))})
	}
	ingest(t, tn, store.IngestResult{Accepted: 5}, batch...)
	listed := func(f store.TraceFilter) []string {
		return ids(first(tn.ListTraces(ctx, f, store.Page{})), func(x store.Trace) string { return x.ID })
	}
	if got := listed(store.TraceFilter{}); !slices.Equal(got, []string{"4", "3", "2", "1", "0"}) {
		t.Errorf("traces a nanosecond apart: %v", got)
	}
	if got := listed(store.TraceFilter{Start: at.Add(1), End: at.Add(2)}); !slices.Equal(got, []string{"2", "1"}) {
		t.Errorf("between two nanoseconds: %v", got)
	}
	if tr := must(tn.GetTrace(ctx, "1"))(t); !tr.CreatedAt.Equal(at.Add(1)) || tr.Duration != 4 {
		t.Errorf("created %v, took %d ns", tr.CreatedAt, tr.Duration)
	}
	if sum := must(tn.Stats(ctx, store.StatsQuery{From: at.Add(-time.Hour), To: at.Add(time.Hour)}))(t).Summary; sum.DurationSum != 15 {
		t.Errorf("durations of 15 ns add up to %d", sum.DurationSum)
	}
	// Retention removes only one of two such traces.
	if res := must(tn.Expire(ctx, store.ExpireBounds{Traces: at.Add(2), Budget: time.Second}))(t); res.Traces != 2 {
		t.Errorf("%d removed, want 2", res.Traces)
	}
	if got := listed(store.TraceFilter{}); !slices.Equal(got, []string{"4", "3", "2"}) {
		t.Errorf("after retention: %v", got)
	}
	ingest(t, tn, store.IngestResult{Expired: 1, Accepted: 1}, store.Trace{ID: "too old", AgentName: "a", Status: store.TraceSuccess, CreatedAt: at.Add(1)},
		store.Trace{ID: "just not", AgentName: "a", Status: store.TraceSuccess, CreatedAt: at.Add(2)})

	if err := o.Records.SetWatermark(ctx, "m", at); err != nil {
		t.Fatal(err)
	}
	if got := must(o.Records.Watermark(ctx, "m"))(t); !got.Equal(at) {
		t.Errorf("mark %v, want %v", got, at)
	}
	// Events of one user are ordered by the nanosecond.
	state := func(typ store.UserEventType, at time.Time) store.UserStatus {
		return must(tn.ApplyUserEvent(ctx, store.UserEvent{Type: typ, UserID: "u", CreatedAt: at}))(t).User.Status
	}
	state(store.UserCreated, at)
	if got := state(store.UserSuspended, at.Add(2)); got != store.UserDeactivated {
		t.Errorf("two nanoseconds later: %s", got)
	}
	if got := state(store.UserReactivated, at.Add(1)); got != store.UserDeactivated {
		t.Errorf("an event that is a nanosecond older: %s", got)
	}
	if got := state(store.UserReactivated, at.Add(3)); got != store.UserActive {
		t.Errorf("an event that is a nanosecond newer: %s", got)
	}
	sla := must(tn.CreateSLA(ctx, store.SLACreate{Name: "s", AgentID: newAgent(t, tn, "x").ID, EvaluationPeriod: "1h"}))(t)
	must(tn.RecordViolation(ctx, store.SLAViolation{SLAID: sla.ID, Type: "latency", PeriodStart: at, PeriodEnd: at.Add(1)}))(t)
	for since, want := range map[time.Time]int{at.Add(1): 1, at.Add(2): 0} {
		list := first(tn.ListViolations(ctx, store.ViolationFilter{Since: since}, store.Page{}))
		if len(list) != want || want == 1 && !list[0].PeriodStart.Equal(at) {
			t.Errorf("violations since %v: %+v", since, list)
		}
	}
}

// beyondASCII are names that some engines treat as equal, truncate, or sort by a
// language. Names are compared as bytes: callers that want to unify names must
// normalize them before.
var beyondASCII = []string{
	"Zebra", "agent", "Agent", "ägent", "a\u0308gent", // composed and decomposed
	"аgent",               // with a Cyrillic а
	"日本語のエージェント", "😀🏳️‍🌈", // outside the basic multilingual plane, with joiners
	"ﬁ", "fi", "straße", "strasse", "STRASSE", "İ", "i", "ı",
	"a b", "a  b", " a", "a ", "a'b\"c`d", "100%", "a_b", "\\", "é\tü",
	strings.Repeat("語", 170), // 510 bytes
}

// testNamesBeyondASCII stores names unchanged, distinguishes them and sorts them by
// their bytes.
func testNamesBeyondASCII(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "t", Description: "語\x01"}))(t)
	for i, name := range beyondASCII {
		agent := must(tn.CreateAgent(ctx, store.AgentCreate{Name: name, Environment: name, Description: name}))(t)
		_, err := tn.CreateAgent(ctx, store.AgentCreate{Name: name})
		wantKind(t, err, store.Conflict, "name")
		must(tn.CreatePolicies(ctx, store.PolicyCreate{Name: name, On: name, Condition: store.PolicyCondition{ToolName: name, Entities: []string{name}}}))(t)
		must(tn.CreateBudget(ctx, store.BudgetCreate{Name: name, Payer: store.Payer{AgentID: agent.ID}, Period: store.Daily, Limit: 1}))(t)
		must(tn.CreateTeam(ctx, store.TeamCreate{Name: name, Scopes: []string{name}}))(t)
		must(tn.AddMember(ctx, team.ID, store.MemberAdd{UserID: name}))(t)
		trace := store.Trace{ID: name[:min(len(name), 120)], AgentName: name, Status: store.TraceSuccess, Environment: name, SessionID: name, ModelProvider: name,
			ModelName: name, ToolName: name, PIIDetected: []string{name}, PoliciesFired: []store.PolicyFired{{ID: name, Name: name}}}
		ingest(t, tn, store.IngestResult{Accepted: 1}, trace)
		got := must(tn.GetTrace(ctx, trace.ID))(t)
		if got.AgentID != agent.ID || got.Environment != name || got.SessionID != name || got.ModelName != name || got.ToolName != name || got.PIIDetected[0] != name {
			t.Errorf("%q: trace %+v", name, got)
		}
		if a := must(tn.GetAgent(ctx, agent.ID))(t); a.Name != name || a.Description != name {
			t.Errorf("%q: agent %+v", name, a)
		}
		for what, n := range map[string]int{
			"agents by environment": total(tn.ListAgents(ctx, store.AgentFilter{Environment: name}, store.Page{})),
			"traces by environment": total(tn.ListTraces(ctx, store.TraceFilter{Environment: name}, store.Page{})),
			"tools":                 total(tn.ListTools(ctx, agent.ID, store.Page{})),
		} {
			if n != 1 {
				t.Errorf("%q: %d %s", name, n, what)
			}
		}
		if n := total(tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})); n != i+1 {
			t.Fatalf("%q: %d agents, want %d", name, n, i+1)
		}
		a := store.IdempotentRequest{KeyID: "k", Route: "POST /" + name, Token: "t"}
		if got := must(tn.BeginAttempt(ctx, a))(t); got != nil {
			t.Errorf("%q: an answer of another attempt", name)
		}
	}
	if list := must(tn.ListMembers(ctx, team.ID))(t); len(list) != len(beyondASCII) {
		t.Errorf("%d members, want %d", len(list), len(beyondASCII))
	}
	// All groups have the same cost, so they are ordered by name, byte by byte. So
	// are aliases.
	sorted := slices.Sorted(slices.Values(beyondASCII))
	now := o.Clock.Now()
	query := store.StatsQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour)}
	for by, name := range map[store.GroupBy]func(store.StatsGroup) string{
		store.GroupByAgent:       func(g store.StatsGroup) string { return g.AgentName },
		store.GroupByModel:       func(g store.StatsGroup) string { return g.ModelName },
		store.GroupByEnvironment: func(g store.StatsGroup) string { return g.Environment },
	} {
		query.GroupBy = by
		if got := ids(must(tn.Stats(ctx, query))(t).Groups, name); !slices.Equal(got, sorted) {
			t.Errorf("groups by %s: %q", by, got)
		}
	}
	for i, a := range first(tn.ListAgents(ctx, store.AgentFilter{}, store.Page{})) {
		next := fmt.Sprint("renamed ", i)
		must(tn.UpdateAgent(ctx, a.ID, store.AgentUpdate{Name: &next}))(t)
	}
	if got := ids(must(tn.ListAgentAliases(ctx))(t), func(a store.AgentAlias) string { return a.Alias }); !slices.Equal(got, sorted) {
		t.Errorf("aliases: %q", got)
	}
}

func total[T any](_ []T, n int, err error) int {
	if err != nil {
		return -1
	}
	return n
}

// testRestored: a store has another identity after each restore, which names the one before and
// the time of the backup, as given or as the last probe in it.
func testRestored(t testing.TB, o Opened) {
	now := o.Clock.Now()
	last := func() store.Restored { return must(store.RestoredOf(t.Context(), o.Records))(t) }
	if r := last(); r != (store.Restored{}) {
		t.Errorf("a new store was restored: %+v", r)
	}
	var before time.Time
	for i, row := range []struct{ at, probe, backup, want time.Time }{
		{at: now},
		{at: now.Add(1), probe: now.Add(-time.Hour), want: now.Add(-time.Hour)},
		{at: now.Add(-time.Hour), backup: now.Add(-time.Minute), want: now.Add(-time.Minute)}, // the clock went back
		{at: now.Add(time.Hour), probe: now, want: now},
	} {
		if !row.probe.IsZero() {
			if err := o.Records.SetWatermark(t.Context(), store.MarkWritten, row.probe); err != nil {
				t.Fatal(err)
			}
		}
		made := must(store.MarkRestored(t.Context(), o.Records, row.at, row.backup))(t)
		r := last()
		if !r.At.After(before) || !r.Before.Equal(before) || !r.Backup.Equal(row.want) || r.Backup.IsZero() != row.want.IsZero() || !r.At.Equal(made.At) {
			t.Errorf("restore %d: %+v, want one later than %v with a backup of %v", i, r, before, row.want)
		}
		before = r.At
	}
}
