package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"svc/store"
)

var errFault = errors.New("injected fault")

// seen is the data of a tenant that a client can read.
type seen struct {
	Teams    []store.Team
	Members  []store.Member
	Agents   []store.Agent
	Aliases  []store.AgentAlias
	Policies []store.Policy
	Keys     []store.Key
	Events   []store.RecordedEvent
	Traces   []store.Trace
	Totals   store.Totals
	Mark     time.Time
}

func look(t testing.TB, o Opened, tn Tenant, team string) (s seen) {
	t.Helper()
	s.Teams = first(tn.ListTeams(ctx, store.Page{}))
	s.Members = must(tn.ListMembers(ctx, team))(t)
	s.Agents = first(tn.ListAgents(ctx, store.AgentFilter{}, store.Page{}))
	s.Aliases = must(tn.ListAgentAliases(ctx))(t)
	s.Policies = first(tn.ListPolicies(ctx, store.PolicyFilter{}, store.Page{}))
	s.Keys = first(tn.ListKeys(ctx, store.KeyFilter{}, store.Page{}))
	s.Events = first(tn.ListUserEvents(ctx, store.Page{}))
	s.Traces = first(tn.ListTraces(ctx, store.TraceFilter{}, store.Page{}))
	at := o.Clock.Now()
	s.Totals = must(tn.Stats(ctx, store.StatsQuery{From: at.Add(-48 * time.Hour), To: at.Add(time.Hour)}))(t).Summary
	s.Mark = must(o.Records.Watermark(ctx, "m"))(t)
	return s
}

// testFaults makes every write fail: each returns the error, nothing of it is
// stored, and the store works again after the fault.
func testFaults(t testing.TB, o Opened) {
	if o.Fail == nil {
		return
	}
	tn := NewTenant(t, o, "t")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	agent := newAgent(t, tn, "agent")
	old := store.Trace{ID: "old", AgentID: agent.ID, Status: store.TraceSuccess, CreatedAt: o.Clock.Now().Add(-24 * time.Hour)}
	ingest(t, tn, store.IngestResult{Accepted: 1}, old)
	attempt := store.IdempotentRequest{KeyID: "k", Route: "POST /x", Token: "t"}
	must(tn.BeginAttempt(ctx, attempt))(t)
	before := look(t, o, tn, team.ID)

	name := "changed"
	batch := []store.Trace{{ID: "new", AgentName: "unheard of", Status: store.TraceError, ToolName: "x", Cost: 5}}
	writes := []struct {
		name string
		do   func(ctx context.Context) error
	}{
		{"CreateTenant", func(ctx context.Context) error {
			_, _, err := o.Records.CreateTenant(ctx, store.TenantCreate{Name: "other"})
			return err
		}},
		{"CreateTeam", func(ctx context.Context) error { return second(tn.CreateTeam(ctx, store.TeamCreate{Name: name})) }},
		{"AddMember", func(ctx context.Context) error {
			return second(tn.AddMember(ctx, team.ID, store.MemberAdd{Email: "a@x.io"}))
		}},
		{"UpdateAgent", func(ctx context.Context) error {
			return second(tn.UpdateAgent(ctx, agent.ID, store.AgentUpdate{Name: &name}))
		}},
		{"Ingest", func(ctx context.Context) error { return second(tn.Ingest(ctx, store.Batch{Traces: batch})) }},
		{"CreatePolicies", func(ctx context.Context) error {
			return second(tn.CreatePolicies(ctx, store.PolicyCreate{Name: "p"}, store.PolicyCreate{Name: "q"}))
		}},
		{"CreateKey", func(ctx context.Context) error {
			return second(tn.CreateKey(ctx, store.KeyCreate{Digest: store.DigestKey("f"), CreatedBy: store.DefaultAdminID}))
		}},
		{"CreateSession", func(ctx context.Context) error {
			return tn.CreateSession(ctx, before.Keys[0].ID, store.DigestKey("session"))
		}},
		{"ApplyUserEvent", func(ctx context.Context) error {
			return second(tn.ApplyUserEvent(ctx, store.UserEvent{Type: store.UserCreated, UserID: "u", CreatedAt: o.Clock.Now()}))
		}},
		{"SetWatermark", func(ctx context.Context) error { return o.Records.SetWatermark(ctx, "m", time.Unix(9, 0)) }},
		{"Expire", func(ctx context.Context) error {
			return second(tn.Expire(ctx, store.ExpireBounds{Traces: o.Clock.Now().Add(-time.Hour)}))
		}},
		{"FinishAttempt", func(ctx context.Context) error {
			return tn.FinishAttempt(ctx, attempt, store.StoredResponse{Status: 201})
		}},
		{"AcquireLease", func(ctx context.Context) error {
			_, ok, err := o.Records.AcquireLease(ctx, "l", "first", time.Hour)
			if ok && err != nil {
				t.Error("a lease that could not be written is held")
			}
			return err
		}},
	}
	o.Fail(func() error { return errFault })
	for _, w := range writes {
		if err := w.do(ctx); !errors.Is(err, errFault) || store.KindOf(err) != store.Internal {
			t.Errorf("%s while writes fail: %v", w.name, err)
		}
		if err := errors.Join(o.Records.Ready(ctx), o.Traces.Ready(ctx)); !errors.Is(err, errFault) {
			t.Errorf("ready after a failed %s: %v", w.name, err)
		}
	}
	if diff := cmp.Diff(before, look(t, o, tn, team.ID)); diff != "" {
		t.Errorf("failed writes changed the store: %s", diff)
	}
	o.Fail(nil)
	if err := tn.AbandonAttempt(ctx, attempt); err != nil {
		t.Error(err)
	}
	if got := must(tn.BeginAttempt(ctx, attempt))(t); got != nil {
		t.Errorf("an answer that could not be kept: %+v", got)
	}
	for _, w := range writes {
		if err := w.do(ctx); err != nil {
			t.Errorf("%s after the fault: %v", w.name, err)
		}
	}
	if err := errors.Join(o.Records.Ready(ctx), o.Traces.Ready(ctx)); err != nil {
		t.Errorf("ready after the fault: %v", err)
	}
	if tr := must(tn.GetTrace(ctx, "new"))(t); tr.AgentID == "" || len(first(tn.ListTools(ctx, tr.AgentID, store.Page{}))) != 1 {
		t.Errorf("the trace after the fault: %+v", tr)
	}
}

// testFaultsNowAndThen makes some of many concurrent writes fail: every
// acknowledged write is stored exactly once, and no other.
func testFaultsNowAndThen(t testing.TB, o Opened) {
	if o.Fail == nil {
		return
	}
	tn := NewTenant(t, o, "t")
	var n, failed atomic.Int64
	o.Fail(func() error {
		if n.Add(1)%3 == 0 {
			return errFault
		}
		return nil
	})
	race(racers, func(i int) {
		for j := range 10 {
			batch := []store.Trace{{ID: fmt.Sprintf("%d-%d", i, j), AgentName: fmt.Sprint("agent ", j%3), Status: store.TraceSuccess, ToolName: "x", Cost: 1}}
			for tries := 0; ; tries++ { // retried, as a reporter does
				_, err := tn.Ingest(ctx, store.Batch{Traces: batch})
				if err == nil {
					break
				}
				if failed.Add(1); !errors.Is(err, errFault) || tries > 100 {
					t.Errorf("ingest: %v", err)
					return
				}
			}
		}
	})
	o.Fail(nil)
	if failed.Load() == 0 {
		t.Error("no write failed")
	}
	agents := first(tn.ListAgents(ctx, store.AgentFilter{}, store.Page{}))
	calls := int64(0)
	for _, a := range agents {
		for _, tool := range first(tn.ListTools(ctx, a.ID, store.Page{})) {
			calls += tool.CallCount
		}
	}
	at := o.Clock.Now()
	totals := must(tn.Stats(ctx, store.StatsQuery{From: at.Add(-time.Hour), To: at.Add(time.Hour)}))(t).Summary
	_, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1})
	if want := racers * 10; err != nil || total != want || totals.Traces != int64(want) || totals.Cost != store.NanoUSD(want) || calls != int64(want) || len(agents) != 3 {
		t.Errorf("%d traces, %d counted, cost %d, %d calls, %d agents, want %d and 3 agents, %v", total, totals.Traces, totals.Cost, calls, len(agents), want, err)
	}
}
