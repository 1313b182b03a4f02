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

func testRaces(t testing.TB, o Opened) {
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
			return second(tn.CreateBudget(ctx, store.BudgetCreate{Name: "one", Payer: store.Payer{AgentID: agent.ID}}))
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
			_, ok, err := o.Records.AcquireLease(ctx, "one", fmt.Sprint(i), time.Hour)
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

	// Many goroutines send one batch concurrently: it is stored once.
	batch := []store.Trace{{ID: "a", AgentName: "racing", Status: store.TraceSuccess}, {ID: "b", AgentName: "racing", Status: store.TraceError}}
	var accepted, duplicates atomic.Int64
	race(racers, func(int) {
		res, err := tn.Ingest(ctx, store.Batch{Traces: batch})
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

	// Concurrent readers, writers, ingest and retention.
	race(racers, func(i int) {
		for j := range 5 {
			var err error
			switch i % 5 {
			case 0:
				_, err = tn.Ingest(ctx, store.Batch{Traces: []store.Trace{{AgentName: fmt.Sprintf("w%d", i%3), Status: store.TraceSuccess, ToolName: "x"}}})
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

func testIdempotency(t testing.TB, o Opened) {
	tn, other := NewTenant(t, o, "t"), NewTenant(t, o, "other")
	a := store.IdempotentRequest{KeyID: "k", Route: "POST /api/teams", Token: "tok", Body: [32]byte{1}}
	answer := store.StoredResponse{Status: 201, ContentType: "application/json", Body: []byte(`{"data":{}}`)}
	begin := func(tn Tenant, a store.IdempotentRequest) *store.StoredResponse {
		t.Helper()
		return must(tn.BeginAttempt(ctx, a))(t)
	}
	abandon := func(tn Tenant, a store.IdempotentRequest) {
		t.Helper()
		if err := tn.AbandonAttempt(ctx, a); err != nil {
			t.Error(err)
		}
	}
	abandon(tn, a) // the request was not begun
	if begin(tn, a) != nil {
		t.Fatal("an answer before the first attempt")
	}
	for name, apart := range map[string]func(*store.IdempotentRequest){
		"key": func(a *store.IdempotentRequest) { a.KeyID = "k2" }, "route": func(a *store.IdempotentRequest) { a.Route = "POST /api/agents" },
		"token": func(a *store.IdempotentRequest) { a.Token = "tok2" },
	} {
		b := a
		apart(&b)
		if begin(tn, b) != nil {
			t.Errorf("an attempt of another %s shares the answer", name)
		}
		abandon(tn, b)
	}
	if begin(other, a) != nil {
		t.Error("another tenant shares the attempt")
	}
	abandon(other, a)

	// A concurrent duplicate waits for the first request.
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := tn.BeginAttempt(short, a); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a twin in flight got %v", err)
	}
	clash := a
	clash.Body = [32]byte{2}
	_, err := tn.BeginAttempt(ctx, clash)
	wantKind(t, err, store.Conflict, "Idempotency-Key")
	waiting := make(chan *store.StoredResponse)
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
	for i, got := range []*store.StoredResponse{<-waiting, begin(tn, a)} {
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
	// After an abandon, one of the waiters does the work.
	var workers atomic.Int32
	go abandon(tn, clash)
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
	if res := must(tn.ApplyRetention(ctx, store.RetentionBounds{Answers: o.Clock.Now().Add(-time.Hour)}))(t); res.Answers != 0 {
		t.Errorf("an answer that expired after the bound was removed: %+v", res)
	}
	if res := must(tn.ApplyRetention(ctx, store.RetentionBounds{}))(t); res.Answers != 1 || res.More {
		t.Errorf("trim %+v", res)
	}
}

func testLeases(t testing.TB, o Opened) {
	acquire := func(name, holder string) (store.Lease, bool) {
		t.Helper()
		l, ok, err := o.Records.AcquireLease(ctx, name, holder, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if ok && (l.Name != name || l.Holder != holder || l.Until.Sub(o.Clock.Now()).Abs() > time.Minute+time.Second) || !ok && l != (store.Lease{}) {
			t.Errorf("lease %+v, %v", l, ok)
		}
		return l, ok
	}
	release := func(l store.Lease) {
		t.Helper()
		if err := o.Records.ReleaseLease(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
	first, ok := acquire("sla", "a")
	_, second := acquire("sla", "b")
	_, other := acquire("retention", "b")
	renewed, again := acquire("sla", "a")
	if !ok || second || !other || !again || renewed.Token != first.Token || renewed.Until.Before(first.Until) {
		t.Errorf("a lease is held by one holder at a time, and renewed by it: %+v, %+v", first, renewed)
	}
	forged := first
	forged.Holder = "b"
	release(forged)
	if _, ok := acquire("sla", "b"); ok {
		t.Error("another holder gave the lease back")
	}
	o.Clock.Advance(2 * time.Minute)
	taken, ok := acquire("sla", "b")
	if !ok || taken.Token <= first.Token {
		t.Errorf("a lease did not end: %+v after %+v", taken, first)
	}
	release(first) // the lease is no longer held
	if _, ok := acquire("sla", "a"); ok {
		t.Error("a lease that was lost was given back")
	}
	release(taken)
	back, ok := acquire("sla", "a")
	if !ok || back.Token <= taken.Token {
		t.Errorf("a lease given back is not free, or its token not higher: %+v after %+v", back, taken)
	}
	// An expired lease that nobody took can be renewed.
	o.Clock.Advance(2 * time.Minute)
	if l, ok := acquire("sla", "a"); !ok || l.Token != back.Token {
		t.Errorf("renewed after its end: %+v, was %+v", l, back)
	}
	if at := must(o.Records.Watermark(ctx, "m"))(t); !at.IsZero() {
		t.Errorf("mark %v before it was set", at)
	}
	now := o.Clock.Now().UTC()
	if err := o.Records.SetWatermark(ctx, "m", now); err != nil {
		t.Fatal(err)
	}
	if at := must(o.Records.Watermark(ctx, "m"))(t); !at.Equal(now) {
		t.Errorf("mark %v, want %v", at, now)
	}
}

// testFencing pauses a holder for longer than its lease lasts.
func testFencing(t testing.TB, o Opened) {
	tn := NewTenant(t, o, "t")
	sla := must(tn.CreateSLA(ctx, store.SLACreate{Name: "s", AgentID: newAgent(t, tn, "a").ID, EvaluationPeriod: "1h"}))(t)
	acquire := func(holder string) store.Lease {
		t.Helper()
		l, ok, err := o.Records.AcquireLease(ctx, "work", holder, time.Minute)
		if err != nil || !ok {
			t.Fatalf("%s has no lease: %v", holder, err)
		}
		return l
	}
	n := 0
	writes := func(l store.Lease) map[string]error {
		n++
		under := store.UnderLease(ctx, l)
		return map[string]error{
			"mark":      o.Records.SetWatermark(under, "m", time.Unix(int64(n), 0)),
			"violation": second(tn.RecordViolation(under, store.SLAViolation{SLAID: sla.ID, Type: "latency", PeriodStart: time.Unix(int64(n), 0)})),
			"team":      second(tn.CreateTeam(under, store.TeamCreate{Name: fmt.Sprint("team ", n)})),
		}
	}
	allowed := func(l store.Lease, want error) {
		t.Helper()
		before := must(o.Records.Watermark(ctx, "m"))(t)
		for what, err := range writes(l) {
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%s under %+v: %v, want %v", what, l, err, want)
			}
		}
		if changed := !must(o.Records.Watermark(ctx, "m"))(t).Equal(before); changed != (want == nil) {
			t.Errorf("under %+v the mark was written: %v", l, changed)
		}
	}
	paused := acquire("a")
	allowed(paused, nil)
	o.Clock.Advance(2 * time.Minute)
	allowed(paused, store.ErrLeaseLost) // expired, though nobody has taken it
	present := acquire("b")
	allowed(paused, store.ErrLeaseLost)
	allowed(present, nil)
	o.Clock.Advance(30 * time.Second)
	acquire("b")
	o.Clock.Advance(45 * time.Second)
	allowed(present, nil) // renewed
	if err := o.Records.ReleaseLease(ctx, present); err != nil {
		t.Fatal(err)
	}
	allowed(present, store.ErrLeaseLost)
	allowed(store.Lease{Name: "never", Holder: "a", Token: 1}, store.ErrLeaseLost)
	if teams, total, err := tn.ListTeams(ctx, store.Page{}); err != nil || total != 3 {
		t.Errorf("%d teams, %v: %+v", total, err, teams)
	}
	// Another acquisition by the same holder is a new lease with another
	// token.
	old := acquire("c")
	if err := o.Records.ReleaseLease(ctx, old); err != nil {
		t.Fatal(err)
	}
	allowed(acquire("c"), nil)
	allowed(old, store.ErrLeaseLost)
	// Reads need no lease, and neither do writes with a context without one.
	must(tn.GetSLA(store.UnderLease(ctx, old), sla.ID))(t)
	must(tn.CreateTeam(ctx, store.TeamCreate{Name: "free"}))(t)
}
