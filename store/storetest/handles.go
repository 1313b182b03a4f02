package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"svc/store"
)

// another opens another handle on the store under test, as another process does.
// An embedded store has one handle, which then stands for all processes.
func (o Opened) another(t testing.TB) Opened {
	if o.Another == nil {
		return o
	}
	o.Records, o.Traces = o.Another(t)
	return o
}

// sees bounds how long one handle may take to show another handle's write, where
// the contract does not require it at once.
const sees = 10 * time.Second

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, ask func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(sees); !ask(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not within %v", what, sees)
		}
	}
}

// onBoth returns a tenant through two handles.
func onBoth(t testing.TB, a Opened) (b Opened, first, second Tenant) {
	b = a.another(t)
	first = NewTenant(t, a, "t")
	return b, first, Tenant{b.Records.Tenant(first.ID()), b.Traces.TracesOf(first.ID())}
}

// testHandlesRace creates resources of the same names at two handles concurrently.
func testHandlesRace(t testing.TB, a Opened) {
	_, one, two := onBoth(t, a)
	tenants := []Tenant{one, two}
	agent := newAgent(t, one, "agent")
	sla := must(one.CreateSLA(ctx, store.SLACreate{Name: "s", AgentID: agent.ID, EvaluationPeriod: "1h"}))(t)
	for name, try := range map[string]func(tn Tenant) error{
		"team":   func(tn Tenant) error { return second(tn.CreateTeam(ctx, store.TeamCreate{Name: "one"})) },
		"agent":  func(tn Tenant) error { return second(tn.CreateAgent(ctx, store.AgentCreate{Name: "one"})) },
		"policy": func(tn Tenant) error { return second(tn.CreatePolicies(ctx, store.PolicyCreate{Name: "one"})) },
		"budget": func(tn Tenant) error {
			return second(tn.CreateBudget(ctx, store.BudgetCreate{Name: "one", Payer: store.Payer{AgentID: agent.ID}}))
		},
		"key": func(tn Tenant) error {
			return second(tn.CreateKey(ctx, store.KeyCreate{Digest: store.DigestKey("one"), CreatedBy: store.DefaultAdminID}))
		},
		"violation": func(tn Tenant) error {
			created, err := tn.RecordViolation(ctx, store.SLAViolation{SLAID: sla.ID, Type: "latency"})
			if err == nil && !created {
				err = store.AlreadyExists("violation", "")
			}
			return err
		},
	} {
		var won, lost atomic.Int32
		race(racers, func(i int) {
			switch err := try(tenants[i%2]); {
			case err == nil:
				won.Add(1)
			case store.KindOf(err) == store.Conflict:
				lost.Add(1)
			default:
				t.Errorf("%s: %v", name, err)
			}
		})
		if won.Load() != 1 || lost.Load() != racers-1 {
			t.Errorf("%s: %d won and %d lost of %d", name, won.Load(), lost.Load(), racers)
		}
	}

	// Both handles ingest traces of the same new agents concurrently, in the same
	// batches and in others.
	race(racers, func(i int) {
		batch := []store.Trace{
			{ID: "same", AgentName: "new 0", Status: store.TraceSuccess, ToolName: "x"},
			{ID: fmt.Sprint("own ", i), AgentName: fmt.Sprint("new ", i%3), Status: store.TraceSuccess, ToolName: "x"},
		}
		if _, err := tenants[i%2].Ingest(ctx, store.Batch{Traces: batch}); err != nil {
			t.Error(err)
		}
	})
	for i, tn := range tenants {
		list, total, err := tn.ListTraces(ctx, store.TraceFilter{}, store.Page{})
		if err != nil || total != racers+1 {
			t.Errorf("handle %d: %d traces, want %d, %v", i, total, racers+1, err)
		}
		ids := map[string]string{}
		for _, tr := range list {
			if known, ok := ids[tr.AgentName]; tr.AgentID == "" || ok && known != tr.AgentID {
				t.Errorf("handle %d: %s is %q and %q", i, tr.AgentName, known, tr.AgentID)
			}
			ids[tr.AgentName] = tr.AgentID
		}
		if _, total, err := tn.ListAgents(ctx, store.AgentFilter{}, store.Page{}); err != nil || total != 5 {
			t.Errorf("handle %d: %d agents, want 5, %v", i, total, err)
		}
		calls := int64(0)
		for _, id := range ids {
			for _, tool := range first(tn.ListTools(ctx, id, store.Page{})) {
				calls += tool.CallCount
			}
		}
		if calls != racers+1 {
			t.Errorf("handle %d: %d calls, want %d", i, calls, racers+1)
		}
	}
}

// testHandlesIdempotency sends a retry to another handle than the first attempt.
func testHandlesIdempotency(t testing.TB, o Opened) {
	_, one, two := onBoth(t, o)
	tenants := []Tenant{one, two}
	a := store.IdempotentRequest{KeyID: "k", Route: "POST /api/teams", Token: "tok", Body: [32]byte{1}}
	answer := store.StoredResponse{Status: 201, Body: []byte("{}")}
	if got := must(one.BeginAttempt(ctx, a))(t); got != nil {
		t.Fatalf("answer %+v", got)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if got, err := two.BeginAttempt(short, a); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a concurrent duplicate at another handle got %+v, %v", got, err)
	}
	clash := a
	clash.Body = [32]byte{2}
	_, err := two.BeginAttempt(ctx, clash)
	wantKind(t, err, store.Conflict, "Idempotency-Key")
	if err := one.FinishAttempt(ctx, a, answer); err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithTimeout(ctx, sees)
	defer cancel()
	if got := must(two.BeginAttempt(late, a))(t); got == nil || got.Status != 201 {
		t.Errorf("the answer at another handle: %+v", got)
	}
	a.Token = "many"
	var workers atomic.Int32
	race(6, func(i int) {
		tn := tenants[i%2]
		got, err := tn.BeginAttempt(late, a)
		switch {
		case err != nil:
			t.Error(err)
		case got == nil:
			workers.Add(1)
			if err := tn.FinishAttempt(ctx, a, answer); err != nil {
				t.Error(err)
			}
		}
	})
	if workers.Load() != 1 {
		t.Errorf("%d did the work", workers.Load())
	}
}

// testHandlesLeases moves a lease from the process of one handle to another's.
func testHandlesLeases(t testing.TB, a Opened) {
	b, one, two := onBoth(t, a)
	first, ok, err := a.Records.AcquireLease(ctx, "work", "a", time.Minute)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, ok, err := b.Records.AcquireLease(ctx, "work", "b", time.Minute); ok || err != nil {
		t.Errorf("both have the lease, %v", err)
	}
	a.Clock.Advance(2 * time.Minute)
	second, ok, err := b.Records.AcquireLease(ctx, "work", "b", time.Minute)
	if err != nil || !ok || second.Token <= first.Token {
		t.Fatalf("%+v after %+v, %v, %v", second, first, ok, err)
	}
	// The paused process resumes; its write fails at either handle.
	for i, tn := range []Tenant{one, two} {
		_, err := tn.CreateTeam(store.UnderLease(ctx, first), store.TeamCreate{Name: "stale"})
		if !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("handle %d: a write under a lost lease: %v", i, err)
		}
		must(tn.CreateTeam(store.UnderLease(ctx, second), store.TeamCreate{Name: fmt.Sprint("fresh ", i)}))(t)
	}
	if err := b.Records.SetWatermark(store.UnderLease(ctx, second), "m", time.Unix(5, 0)); err != nil {
		t.Fatal(err)
	}
	if err := a.Records.SetWatermark(store.UnderLease(ctx, first), "m", time.Unix(1, 0)); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("a watermark under a lost lease: %v", err)
	}
	if at := must(a.Records.Watermark(ctx, "m"))(t); !at.Equal(time.Unix(5, 0)) {
		t.Errorf("mark %v", at)
	}
}

// testHandlesStreams streams at one handle the traces that another stores, and
// resumes at either.
func testHandlesStreams(t testing.TB, a Opened) {
	_, one, two := onBoth(t, a)
	trace := func(id string) store.Trace {
		return store.Trace{ID: id, AgentName: "a", Status: store.TraceSuccess}
	}
	live := must(two.StreamTraces(ctx, store.StreamOptions{}))(t)
	defer live.Close()
	late, cancel := context.WithTimeout(ctx, sees)
	defer cancel()
	var events []store.TraceEvent
	for i, tn := range []Tenant{one, two, one} {
		ingest(t, tn, store.IngestResult{Accepted: 1}, trace(fmt.Sprint(i)))
		for len(events) <= i {
			events = append(events, must(live.Next(late))(t)...)
		}
	}
	for i, e := range events {
		if e.Trace.ID != fmt.Sprint(i) {
			t.Errorf("event %d is %q", i, e.Trace.ID)
		}
	}
	for i, tn := range []Tenant{one, two} {
		resumed := must(tn.StreamTraces(ctx, store.StreamOptions{After: events[0].Cursor}))(t)
		if got := must(resumed.Next(late))(t); len(got) != 2 || got[0].Trace.ID != "1" || got[1].Cursor != events[2].Cursor {
			t.Errorf("resumed at handle %d: %+v", i, got)
		}
		resumed.Close()
	}
}

// testHandlesKeys uses, shows and deletes a key at different handles.
func testHandlesKeys(t testing.TB, a Opened) {
	b, one, two := onBoth(t, a)
	digest := store.DigestKey("shared")
	key := must(one.CreateKey(ctx, store.KeyCreate{Name: "k", Scope: store.ScopeIngest, Digest: digest, CreatedBy: store.DefaultAdminID}))(t)
	if cred := must(b.Records.Authenticate(ctx, digest))(t); cred.Key.ID != key.ID {
		t.Errorf("another handle finds %+v", cred)
	}
	at := a.Clock.Now().UTC().Truncate(time.Second)
	one.RecordKeyUse(key.ID, at)
	if got := must(one.GetKey(ctx, key.ID))(t).LastUsedAt; !got.Equal(at) {
		t.Errorf("used %v, want %v", got, at)
	}
	eventually(t, "another handle shows the use of a key", func() bool { return must(two.GetKey(ctx, key.ID))(t).LastUsedAt.Equal(at) })
	two.RecordKeyUse(key.ID, at.Add(-time.Hour)) // an older use changes nothing
	if got := must(two.GetKey(ctx, key.ID))(t).LastUsedAt; !got.Equal(at) {
		t.Errorf("after an older use %v, want %v", got, at)
	}
	if err := two.DeleteKey(ctx, key.ID); err != nil {
		t.Fatal(err)
	}
	_, err := a.Records.Authenticate(ctx, digest)
	wantKind(t, err, store.Unauthorized, "")
}

// testHandlesClose closes one handle: the other continues to work.
func testHandlesClose(t testing.TB, a Opened) {
	if a.Another == nil {
		return
	}
	b, one, two := onBoth(t, a)
	must(two.CreateTeam(ctx, store.TeamCreate{Name: "kept"}))(t)
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := two.CreateTeam(ctx, store.TeamCreate{Name: "late"}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a closed handle writes: %v", err)
	}
	if _, total, err := one.ListTeams(ctx, store.Page{}); err != nil || total != 1 {
		t.Errorf("%d teams, %v", total, err)
	}
	must(one.CreateTeam(ctx, store.TeamCreate{Name: "more"}))(t)
}
