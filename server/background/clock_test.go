//go:build unix

package background

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc/store"
	"svc/store/bolt"
	"svc/store/clickhouse"
	"svc/store/clickhouse/clickhousetest"
	"svc/store/postgres"
	"svc/store/postgres/postgrestest"
)

const (
	aDay    = 24 * time.Hour
	keptFor = 30 * aDay // retention of traces in these tests
)

// aged is a store with a trace for each hour of keptFor before epoch, and a violation and an
// identity event of that time.
type aged struct {
	t       *testing.T
	clock   *clock
	running *clock // the time that processes have run
	records store.Engine
	traces  store.Traces
	tenant  store.Tenant
	log     bytes.Buffer
}

// onEngines runs a test on each engine that has traces; open makes an empty store.
func onEngines(t *testing.T, test func(t *testing.T, open func(*testing.T) *aged)) {
	t.Run("bbolt", func(t *testing.T) { test(t, onFile) })
	t.Run("PostgreSQL", func(t *testing.T) {
		server := postgrestest.Start(t)
		test(t, func(t *testing.T) *aged {
			c := &clock{t: epoch}
			st, err := postgres.Open(t.Context(), server.Database(t), postgres.Options{Now: c.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			return newAged(t, c, st, st)
		})
	})
	t.Run("ClickHouse", func(t *testing.T) {
		server := clickhousetest.Start(t)
		test(t, func(t *testing.T) *aged {
			c := &clock{t: epoch}
			st := file(t, c)
			tr, err := clickhouse.Open(t.Context(), server.Database(t), clickhouse.Options{Now: c.Now, MergeEvery: -1, Timeout: time.Minute,
				Agents: func(tenant string) store.AgentDirectory { return st.Tenant(tenant) }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tr.Close() })
			return newAged(t, c, st, tr)
		})
	})
}

func file(t *testing.T, c *clock) store.Engine {
	st, err := bolt.Open(filepath.Join(t.TempDir(), "svc.db"), bolt.Options{Now: c.Now, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func onFile(t *testing.T) *aged {
	c := &clock{t: epoch}
	st := file(t, c)
	return newAged(t, c, st, st)
}

func newAged(t *testing.T, c *clock, records store.Engine, traces store.Traces) *aged {
	t.Helper()
	ctx := t.Context()
	a := &aged{t: t, clock: c, running: &clock{t: epoch}, records: records, traces: traces}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := records.CreateTenant(ctx, store.TenantCreate{ID: "one", Name: "one"})
	must(err)
	a.tenant = records.Tenant("one")
	agent, err := a.tenant.CreateAgent(ctx, store.AgentCreate{Name: "planner"})
	must(err)
	var batch store.Batch
	for at := epoch.Add(-keptFor + time.Minute); at.Before(epoch); at = at.Add(time.Hour) {
		batch.Traces = append(batch.Traces, store.Trace{ID: fmt.Sprintf("t-%d", at.Unix()), AgentID: agent.ID, Status: store.TraceSuccess, CreatedAt: at})
	}
	_, err = traces.TracesOf("one").Ingest(ctx, batch)
	must(err)
	limit := 1.0
	sla, err := a.tenant.CreateSLA(ctx, store.SLACreate{Name: "s", AgentID: agent.ID, ErrorRatePercent: &limit, EvaluationPeriod: "1h"})
	must(err)
	_, err = a.tenant.RecordViolation(ctx, store.SLAViolation{SLAID: sla.ID, Type: "error_rate", PeriodStart: epoch.Add(-time.Hour), PeriodEnd: epoch})
	must(err)
	_, err = a.tenant.ApplyUserEvent(ctx, store.UserEvent{Type: store.UserCreated, CreatedAt: epoch, UserID: "u1"})
	must(err)
	return a
}

// process returns the retention of another process on the store.
func (a *aged) process() *Retention {
	r := NewRetention(EvaluatorOptions{Records: a.records, Traces: a.traces, Now: a.clock.Now, Logger: slog.New(slog.NewTextHandler(&a.log, nil))}, keptFor)
	r.clock.running = a.running.Now
	return r
}

// run lets processes run for d and makes a pass.
func (a *aged) run(r *Retention, d time.Duration) {
	a.t.Helper()
	a.clock.advance(d)
	a.running.advance(d)
	if err := r.step(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
}

// left counts what the store has: traces; and violations and identity events in one sum.
func (a *aged) left() (traces, records int) {
	a.t.Helper()
	ctx := context.Background()
	_, traces, err := a.traces.TracesOf("one").ListTraces(ctx, store.TraceFilter{}, store.Page{Limit: 1})
	if err != nil {
		a.t.Fatal(err)
	}
	_, violations, err := a.tenant.ListViolations(ctx, store.ViolationFilter{Since: epoch.Add(-aDay)}, store.Page{})
	if err != nil {
		a.t.Fatal(err)
	}
	_, events, err := a.tenant.ListUserEvents(ctx, store.Page{})
	if err != nil {
		a.t.Fatal(err)
	}
	return traces, violations + events
}

func (a *aged) warnings() int { return strings.Count(a.log.String(), "level=WARN") }

const hours = int(keptFor / time.Hour)

// A clock that is 100 days ahead removes nothing at once, and then the oldest day of data in
// each hour of running.
func TestAClockAheadDoesNotRemoveEverything(t *testing.T) {
	onEngines(t, func(t *testing.T, open func(*testing.T) *aged) {
		t.Run("a day an hour", func(t *testing.T) { removesADayAnHour(t, open(t)) })
		t.Run("first start", func(t *testing.T) { keepsAllAtTheFirstStart(t, open(t)) })
		t.Run("accepted", func(t *testing.T) { isFollowedWhenAccepted(t, open(t)) })
		t.Run("idempotency", func(t *testing.T) { keepsAnswers(t, open(t)) })
	})
}

// In a process that was just started nothing is removed, and then a day in each hour, with a
// warning in each hour. After 30 hours a store that was off for a month has caught up.
func removesADayAnHour(t *testing.T, a *aged) {
	a.run(a.process(), 0)
	if traces, records := a.left(); traces != hours || records != 2 {
		t.Fatalf("%d traces, %d records before the jump", traces, records)
	}
	a.clock.advance(100 * aDay)
	r := a.process()
	a.run(r, 0)
	if traces, records := a.left(); traces != hours || records != 2 || a.warnings() != 1 || r.ClockJump() != 100*aDay {
		t.Fatalf("at the start: %d traces, %d records, %d warnings, jump %v", traces, records, a.warnings(), r.ClockJump())
	}
	for _, part := range []string{"clock=2026-06-12", "latest=2026-03-04", "svc store clock accept"} {
		if !strings.Contains(a.log.String(), part) {
			t.Errorf("the warning lacks %s: %s", part, a.log.String())
		}
	}
	for n := 1; n <= 30; n++ {
		for range 6 {
			a.run(r, 10*time.Minute)
		}
		if traces, records := a.left(); traces != hours-24*n || records != 2 || a.warnings() != 1+n {
			t.Fatalf("after %d hours: %d traces, %d records, %d warnings", n, traces, records, a.warnings())
		}
	}
}

// A store with data and without a latest time, such as one that was restored, loses nothing when
// the clock is ahead at the first pass, whatever was stored by that clock since the process began.
func keepsAllAtTheFirstStart(t *testing.T, a *aged) {
	a.clock.advance(100 * aDay)
	r := a.process()
	a.clock.advance(time.Minute)
	now := a.clock.Now()
	if _, err := a.traces.TracesOf("one").Ingest(t.Context(), store.Batch{Traces: []store.Trace{{ID: "new", AgentName: "planner", Status: store.TraceSuccess, CreatedAt: now}}}); err != nil {
		t.Fatal(err)
	}
	if err := a.records.SetWatermark(t.Context(), evaluated, now); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Retention{r, a.process()} { // the second one finds the stored time
		a.run(r, 0)
		if traces, records := a.left(); traces != hours+1 || records != 2 || r.ClockJump() < 99*aDay {
			t.Fatalf("%d traces, %d records, jump %v", traces, records, r.ClockJump())
		}
		r.release(t.Context())
	}
}

// What a store without a latest time is compared with, and an empty store, which takes the clock as
// it is.
func TestTheFirstLatestTimeIsThatOfTheNewestData(t *testing.T) {
	c := &clock{t: epoch}
	st := file(t, c)
	first := func() time.Time {
		t.Helper()
		r := NewRetention(EvaluatorOptions{Records: st, Traces: st, Now: c.Now}, keptFor)
		at, err := r.newest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if at := first(); !at.IsZero() {
		t.Errorf("an empty store: %v", at)
	}
	want := func(what string) {
		t.Helper()
		at := c.Now()
		c.advance(10 * aDay)
		if got := first(); !got.Equal(at) {
			t.Errorf("%s: %v, want %v", what, got, at)
		}
	}
	if _, _, err := st.CreateTenant(t.Context(), store.TenantCreate{ID: "one", Name: "one"}); err != nil {
		t.Fatal(err)
	}
	want("a tenant")
	agent, err := st.Tenant("one").CreateAgent(t.Context(), store.AgentCreate{Name: "planner"})
	if err != nil {
		t.Fatal(err)
	}
	want("a change by an administrator")
	if _, err := st.TracesOf("one").Ingest(t.Context(), store.Batch{Traces: []store.Trace{{ID: "t", AgentID: agent.ID, Status: store.TraceSuccess, CreatedAt: c.Now()}}}); err != nil {
		t.Fatal(err)
	}
	want("a trace")
	if err := st.SetWatermark(t.Context(), evaluated, c.Now()); err != nil {
		t.Fatal(err)
	}
	want("evaluation")
}

// 'svc store clock accept' ends the slow removal: the next pass goes by the clock.
func isFollowedWhenAccepted(t *testing.T, a *aged) {
	r := a.process()
	a.run(r, 0)
	a.clock.advance(100 * aDay)
	a.run(r, 10*time.Minute)
	if traces, _ := a.left(); traces != hours-4 || r.ClockJump() == 0 {
		t.Fatalf("%d traces, jump %v", traces, r.ClockJump())
	}
	before, err := AcceptClock(t.Context(), a.records, a.clock.Now())
	if err != nil || !before.Equal(epoch.Add(4*time.Hour)) {
		t.Fatal(before, err)
	}
	a.run(r, 10*time.Minute)
	if traces, records := a.left(); traces != 0 || records != 1 || r.ClockJump() != 0 { // violations are kept for 400 days
		t.Errorf("%d traces, %d records, jump %v", traces, records, r.ClockJump())
	}
}

// Answers to requests with an Idempotency-Key outlive a jump of the clock: when the clock is
// right again, a repeated request still gets its answer and is not done twice.
func keepsAnswers(t *testing.T, a *aged) {
	req := store.IdempotentRequest{KeyID: "key_1", Route: "POST /api/agents", Token: "once"}
	if got, err := a.tenant.BeginAttempt(t.Context(), req); got != nil || err != nil {
		t.Fatal(got, err)
	}
	if err := a.tenant.FinishAttempt(t.Context(), req, store.StoredResponse{Status: 201, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	r := a.process()
	a.run(r, 0)
	a.clock.advance(100 * aDay)
	a.run(r, 10*time.Minute)
	a.clock.advance(-100 * aDay)
	if got, err := a.tenant.BeginAttempt(t.Context(), req); got == nil || err != nil {
		t.Errorf("the answer is gone: %v, %v", got, err)
	}
}

// A process that ends and starts again and again while the clock is ahead has not run for
// an hour, and removes nothing.
func TestRestartsWithAClockAheadRemoveNothing(t *testing.T) {
	a := onFile(t)
	a.run(a.process(), 0)
	a.clock.advance(100 * aDay)
	for range 50 {
		a.run(a.process(), 30*time.Second)
	}
	if traces, records := a.left(); traces != hours || records != 2 {
		t.Errorf("%d traces, %d records", traces, records)
	}
}

// The time that a process waited for the lease is no time of running: of several processes
// only the one that removes data counts it.
func TestOnlyTheHolderOfTheLeaseCountsItsTime(t *testing.T) {
	a := onFile(t)
	first, second := a.process(), a.process()
	a.run(first, 0)
	a.clock.advance(100 * aDay)
	a.run(first, 0)
	first.release(t.Context())
	a.run(second, time.Hour) // it did not hold the lease in this hour
	if second.ClockJump() == 0 {
		t.Error("the holder of the lease reports no jump")
	}
	a.run(second, time.Hour)
	second.release(t.Context())
	a.run(first, time.Hour) // nor did the first in these hours
	if traces, _ := a.left(); traces != hours-24 {
		t.Errorf("%d traces are left, want one day less than %d", traces, hours)
	}
	// A process that finds the lease taken no longer reports a jump.
	a.clock.advance(time.Second)
	if _, err := second.acquire(t.Context()); err != nil || second.ClockJump() != 0 || first.ClockJump() == 0 {
		t.Errorf("%v, jumps %v and %v", err, second.ClockJump(), first.ClockJump())
	}
}

// A clock that went back removes nothing more, is warned of when it is more than a day
// behind, and the latest time that the store keeps stays, so that the return of the clock
// is no jump.
func TestAClockThatWentBackIsWarnedOf(t *testing.T) {
	a := onFile(t)
	r := a.process()
	a.run(r, 0)
	a.clock.advance(-20 * 365 * aDay)
	a.run(r, time.Minute)
	a.run(r, time.Minute)
	if traces, records := a.left(); traces != hours || records != 2 || a.warnings() != 1 || r.ClockJump() >= 0 {
		t.Errorf("%d traces, %d records, %d warnings, jump %v", traces, records, a.warnings(), r.ClockJump())
	}
	a.clock.advance(20*365*aDay + aDay - 2*time.Minute)
	a.run(r, 0)
	if traces, _ := a.left(); traces != hours-24 || a.warnings() != 1 || r.ClockJump() != 0 {
		t.Errorf("after the return: %d traces, %d warnings, jump %v", traces, a.warnings(), r.ClockJump())
	}
}
