package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc/store"
)

// race runs fn in n goroutines at once.
func race(n int, fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

const racers = 20

func testRaces(t *testing.T, o Opened) {
	tn := NewTenant(t, o, "t")
	agent := newAgent(t, tn, "agent")
	team := must(tn.CreateTeam(ctx, store.TeamCreate{Name: "team"}))(t)
	sla := must(tn.CreateSLA(ctx, store.SLACreate{Name: "s", AgentID: agent.ID, EvaluationPeriod: "1h"}))(t)
	for name, try := range map[string]func(i int) error{
		"tenant": func(int) error {
			_, _, err := o.Records.CreateTenant(ctx, store.TenantCreate{Name: "one"})
			return err
		},
		"team":  func(int) error { return second(tn.CreateTeam(ctx, store.TeamCreate{Name: "one"})) },
		"agent": func(int) error { return second(tn.CreateAgent(ctx, store.AgentCreate{Name: "one"})) },
		"budget": func(int) error {
			return second(tn.CreateBudget(ctx, store.BudgetCreate{Name: "one", AgentID: agent.ID}))
		},
		"policy": func(int) error { return second(tn.CreatePolicies(ctx, store.PolicyCreate{Name: "one"})) },
		"member": func(int) error { return second(tn.AddMember(ctx, team.ID, store.MemberAdd{Email: "one@x.io"})) },
		"violation": func(int) error {
			created, err := tn.RecordViolation(ctx, store.SLAViolation{SLAID: sla.ID, Type: "latency"})
			if err == nil && !created {
				err = store.AlreadyExists("violation", "")
			}
			return err
		},
		"lease": func(i int) error {
			ok, err := o.Records.AcquireLease(ctx, "one", fmt.Sprint(i), time.Hour)
			if err == nil && !ok {
				err = store.AlreadyExists("lease", "")
			}
			return err
		},
	} {
		var won, lost atomic.Int32
		race(racers, func(i int) {
			switch err := try(i); {
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

	// One batch posted by all at once is stored once.
	batch := []store.Trace{{ID: "a", AgentName: "racing", Status: store.TraceSuccess}, {ID: "b", AgentName: "racing", Status: store.TraceError}}
	var accepted, duplicates atomic.Int64
	race(racers, func(int) {
		res, err := tn.Ingest(ctx, batch)
		if err != nil {
			t.Error(err)
		}
		accepted.Add(int64(res.Accepted))
		duplicates.Add(int64(res.Duplicates))
	})
	if accepted.Load() != 2 || duplicates.Load() != 2*racers-2 {
		t.Errorf("%d accepted and %d duplicates", accepted.Load(), duplicates.Load())
	}
	now := o.Clock.Now()
	if s := must(tn.Stats(ctx, store.StatsQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour)}))(t).Summary; s.Traces != 2 || s.Errors != 1 {
		t.Errorf("statistics %+v", s)
	}

	// Readers, writers, ingest and retention at once.
	race(racers, func(i int) {
		for j := range 5 {
			var err error
			switch i % 5 {
			case 0:
				_, err = tn.Ingest(ctx, []store.Trace{{AgentName: fmt.Sprintf("w%d", i%3), Status: store.TraceSuccess, ToolName: "x"}})
			case 1:
				_, _, err = tn.ListTraces(ctx, store.TraceFilter{Status: store.TraceSuccess}, store.Page{Limit: 3})
			case 2:
				_, err = tn.Stats(ctx, store.StatsQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour), GroupBy: store.GroupByAgent})
			case 3:
				_, err = tn.CreateAgent(ctx, store.AgentCreate{Name: fmt.Sprintf("c%d-%d", i, j)})
			case 4:
				_, err = tn.Expire(ctx, store.ExpireBounds{Traces: now.Add(-time.Hour), Minutes: now.Add(-2 * time.Hour)})
			}
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
}

func testIdempotency(t *testing.T, o Opened) {
	tn, other := NewTenant(t, o, "t"), NewTenant(t, o, "other")
	a := store.Attempt{KeyID: "k", Route: "POST /api/teams", Token: "tok", Body: [32]byte{1}}
	answer := store.Answer{Status: 201, ContentType: "application/json", Body: []byte(`{"data":{}}`)}
	begin := func(tn Tenant, a store.Attempt) *store.Answer {
		t.Helper()
		return must(tn.BeginAttempt(ctx, a))(t)
	}
	if begin(tn, a) != nil {
		t.Fatal("an answer before the first attempt")
	}
	for name, apart := range map[string]func(*store.Attempt){
		"key": func(a *store.Attempt) { a.KeyID = "k2" }, "route": func(a *store.Attempt) { a.Route = "POST /api/agents" },
		"token": func(a *store.Attempt) { a.Token = "tok2" },
	} {
		b := a
		apart(&b)
		if begin(tn, b) != nil {
			t.Errorf("an attempt of another %s shares the answer", name)
		}
		tn.AbandonAttempt(b)
	}
	if begin(other, a) != nil {
		t.Error("another tenant shares the attempt")
	}
	other.AbandonAttempt(a)

	// A twin waits for the first.
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := tn.BeginAttempt(short, a); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a twin in flight got %v", err)
	}
	clash := a
	clash.Body = [32]byte{2}
	_, err := tn.BeginAttempt(ctx, clash)
	wantKind(t, err, store.Conflict, "Idempotency-Key")
	waiting := make(chan *store.Answer)
	go func() {
		got, err := tn.BeginAttempt(ctx, a)
		if err != nil {
			t.Error(err)
		}
		waiting <- got
	}()
	if err := tn.FinishAttempt(ctx, a, answer); err != nil {
		t.Fatal(err)
	}
	for i, got := range []*store.Answer{<-waiting, begin(tn, a)} {
		if got == nil || got.Status != 201 || string(got.Body) != string(answer.Body) {
			t.Errorf("retry %d: %+v", i, got)
		}
	}
	_, err = tn.BeginAttempt(ctx, clash)
	wantKind(t, err, store.Conflict, "Idempotency-Key")
	if err := tn.FinishAttempt(ctx, a, answer); err == nil {
		t.Error("finished an attempt that was not begun")
	}
	o.Clock.Advance(store.IdempotencyTTL + time.Second)
	if begin(tn, clash) != nil {
		t.Error("an answer is kept beyond its time")
	}
	// Abandoned: one of the waiting does the work.
	var workers atomic.Int32
	go tn.AbandonAttempt(clash)
	race(5, func(int) {
		got, err := tn.BeginAttempt(ctx, clash)
		if err != nil {
			t.Error(err)
		}
		if got == nil {
			workers.Add(1)
			if err := tn.FinishAttempt(ctx, clash, answer); err != nil {
				t.Error(err)
			}
		}
	})
	if workers.Load() != 1 {
		t.Errorf("%d did the work", workers.Load())
	}
	o.Clock.Advance(store.IdempotencyTTL + time.Second)
	if res := must(tn.Trim(ctx, store.TrimBounds{}))(t); res.Answers != 1 || res.More {
		t.Errorf("trim %+v", res)
	}
}

func testLeases(t *testing.T, o Opened) {
	acquire := func(name, holder string) bool {
		t.Helper()
		return must(o.Records.AcquireLease(ctx, name, holder, time.Minute))(t)
	}
	if !acquire("sla", "a") || acquire("sla", "b") || !acquire("retention", "b") || !acquire("sla", "a") {
		t.Error("a lease is held by one holder at a time, and renewed by it")
	}
	if err := o.Records.ReleaseLease(ctx, "sla", "b"); err != nil {
		t.Fatal(err)
	}
	if acquire("sla", "b") {
		t.Error("another holder gave the lease back")
	}
	o.Clock.Advance(2 * time.Minute)
	if !acquire("sla", "b") {
		t.Error("a lease did not end")
	}
	if err := o.Records.ReleaseLease(ctx, "sla", "b"); err != nil {
		t.Fatal(err)
	}
	if !acquire("sla", "a") {
		t.Error("a lease given back is not free")
	}
	if at := must(o.Records.Mark(ctx, "m"))(t); !at.IsZero() {
		t.Errorf("mark %v before it was set", at)
	}
	now := o.Clock.Now().UTC()
	if err := o.Records.SetMark(ctx, "m", now); err != nil {
		t.Fatal(err)
	}
	if at := must(o.Records.Mark(ctx, "m"))(t); !at.Equal(now) {
		t.Errorf("mark %v, want %v", at, now)
	}
}
