package background

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"svc/store"
	"svc/store/storetest/memory"
)

// backlogs is a store whose tenants have rows to remove. It records the calls by tenant,
// and removes a thousand rows of a tenant per call.
type backlogs struct {
	Records
	ids    []string
	rows   map[string]int
	took   time.Duration // duration of a transaction
	fails  string        // the tenant whose transactions fail
	turns  []string
	leases int
	held   int // number of calls for which the lease is still held; 0: always
}

func (b *backlogs) AcquireLease(context.Context, string, string, time.Duration) (store.Lease, bool, error) {
	b.leases++
	return store.Lease{Name: "retention"}, b.held == 0 || b.leases <= b.held, nil
}

func (*backlogs) Watermark(context.Context, string) (time.Time, error)  { return time.Time{}, nil }
func (*backlogs) SetWatermark(context.Context, string, time.Time) error { return nil }

func (b *backlogs) ListTenants(context.Context) (infos []store.TenantInfo, err error) {
	for _, id := range b.ids {
		infos = append(infos, store.TenantInfo{ID: id})
	}
	return infos, nil
}

func (b *backlogs) Tenant(id string) store.Tenant { return backlog{id: id, b: b} }

type backlog struct {
	store.Tenant
	store.TenantTraces
	id string
	b  *backlogs
}

func (b *backlogs) TracesOf(id string) store.TenantTraces { return backlog{id: id, b: b} }

func (t backlog) ID() string { return t.id }

func (backlog) ListAuditEvents(context.Context, store.AuditEventFilter, store.Page) ([]store.AuditEvent, string, error) {
	return nil, "", nil
}

func (backlog) ListTraces(context.Context, store.TraceFilter, store.Page) ([]store.Trace, int, error) {
	return nil, 0, nil
}

func (backlog) ApplyRetention(context.Context, store.RetentionBounds) (store.RetentionResult, error) {
	return store.RetentionResult{}, nil
}

func (t backlog) Expire(context.Context, store.ExpireBounds) (store.Expired, error) {
	t.b.turns = append(t.b.turns, t.id)
	if t.id == t.b.fails {
		return store.Expired{}, errors.New("the disk is full")
	}
	<-time.After(t.b.took) // on the clock of synctest
	n := min(t.b.rows[t.id], 1000)
	t.b.rows[t.id] -= n
	return store.Expired{Traces: n, More: n == 1000}, nil
}

func TestOnePassRemovesAllOldData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlogs{ids: []string{"a", "b", "c"}, rows: map[string]int{"a": 3_000_000, "b": 10, "c": 2_500}, took: 50 * time.Millisecond}
		if err := NewRetention(EvaluatorOptions{Records: b, Traces: b}, time.Hour).step(t.Context()); err != nil {
			t.Fatal(err)
		}
		for id, n := range b.rows {
			if n != 0 {
				t.Errorf("tenant %s has %d old rows left", id, n)
			}
		}
		// The tenant with a backlog does not delay the others.
		if want := []string{"a", "b", "c", "a", "c", "a", "c", "a"}; !slices.Equal(b.turns[:8], want) {
			t.Errorf("turns %v, want %v first", b.turns[:8], want)
		}
	})
}

func TestATenantThatFailsDoesNotStopRetention(t *testing.T) {
	b := &backlogs{ids: []string{"a", "b"}, rows: map[string]int{"a": 5, "b": 5}, fails: "a"}
	err := NewRetention(EvaluatorOptions{Records: b, Traces: b}, time.Hour).step(t.Context())
	if err == nil || b.rows["b"] != 0 || slices.Index(b.turns, "a") != 0 || len(b.turns) != 2 {
		t.Errorf("%v, turns %v, left %v", err, b.turns, b.rows)
	}
}

func TestRetentionEndsWhenAnotherProcessHoldsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlogs{ids: []string{"a"}, rows: map[string]int{"a": 1 << 40}, took: time.Second, held: 3}
		if err := NewRetention(EvaluatorOptions{Records: b, Traces: b}, time.Hour).step(t.Context()); !errors.Is(err, store.ErrLeaseLost) || b.leases != 4 {
			t.Errorf("%v, the lease was asked for %d times", err, b.leases)
		}
	})
}

func TestRetentionStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b := &backlogs{ids: []string{"a"}, rows: map[string]int{"a": 1 << 40}, took: 50 * time.Millisecond}
		if err := NewRetention(EvaluatorOptions{Records: b, Traces: b}, time.Hour).step(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		// Half of the time was left to others.
		if n := len(b.turns); n < 590 || n > 610 {
			t.Errorf("%d transactions of 50 ms in a minute, want 600", n)
		}
	})
}

// A worker with a pass every hour renews its lease in between, and the worker of another
// process takes over within 45 seconds after it has stopped.
func TestAWorkerThatIsGoneIsFollowedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.Open(memory.Options{})
		defer st.Close()
		passes := make(chan string, 16)
		work := func(name string) (gone context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			w := newWorker(EvaluatorOptions{Records: held{st, ctx}, Traces: st, Interval: time.Hour}, "work", time.Hour)
			w.pass = func(context.Context) error { passes <- name; return nil }
			go w.run(ctx)
			return cancel
		}
		first := work("first")
		if got := <-passes; got != "first" {
			t.Fatal(got)
		}
		second := work("second")
		defer second()
		<-time.After(50 * time.Minute)
		if len(passes) > 0 {
			t.Fatalf("the %s worker took over while the first was alive", <-passes)
		}
		first()
		began := time.Now()
		if got := <-passes; got != "second" || time.Since(began) > 45*time.Second {
			t.Errorf("the %s worker after %v, want the second within 45s", got, time.Since(began))
		}
		if got := <-passes; got != "second" || time.Since(began) > time.Hour+45*time.Second {
			t.Errorf("the next pass by the %s worker after %v", got, time.Since(began))
		}
	})
}

// held is a store that a stopped process can no longer reach, not even to release its
// lease.
type held struct {
	store.Records
	ctx context.Context
}

func (h held) ReleaseLease(ctx context.Context, l store.Lease) error {
	if h.ctx.Err() != nil {
		return h.ctx.Err()
	}
	return h.Records.ReleaseLease(ctx, l)
}

// A pass that takes longer than the lease is valid keeps the lease.
func TestALeaseIsRenewedDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.Open(memory.Options{})
		defer st.Close()
		w := newWorker(EvaluatorOptions{Records: st, Traces: st}, "work", time.Minute)
		w.pass = func(ctx context.Context) error {
			<-time.After(5 * leaseFor)
			return st.SetWatermark(ctx, "work", time.Now())
		}
		if err := w.step(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The longest period that queries read by the minute keeps its minutes.
func TestStatisticsOfADayKeepTheirMinutes(t *testing.T) {
	r := newRig(t)
	r.traces(1, epoch.Add(-23*time.Hour-30*time.Minute), time.Millisecond, store.TraceSuccess, false)
	r.traces(1, epoch.Add(-72*time.Hour), time.Millisecond, store.TraceSuccess, false)
	if err := NewRetention(r.options(), 0).step(t.Context()); err != nil {
		t.Fatal(err)
	}
	from := epoch.Add(-24*time.Hour + 17*time.Minute)
	stats, err := r.stored.Stats(t.Context(), store.StatsQuery{From: from, To: epoch})
	if err != nil || !stats.From.Equal(from) || stats.Summary.Traces != 1 {
		t.Errorf("statistics from %v: from %v, %d traces, %v", from, stats.From, stats.Summary.Traces, err)
	}
}

// Violations are kept for 400 days after their periods, and identity events for 90 days
// after their receipt, independently of the retention of traces.
func TestViolationsAndEventsHaveTheirOwnRetention(t *testing.T) {
	r := newRig(t)
	target := r.sla("1h", nil, ptr(1))
	if made, err := r.tenant.RecordViolation(t.Context(), store.SLAViolation{SLAID: target.ID, Type: "latency", PeriodStart: epoch.Add(-time.Hour), PeriodEnd: epoch}); !made || err != nil {
		t.Fatal(made, err)
	}
	if _, err := r.tenant.ApplyUserEvent(t.Context(), store.UserEvent{Type: store.UserCreated, CreatedAt: epoch, UserID: "u1"}); err != nil {
		t.Fatal(err)
	}
	keeper := NewRetention(r.options(), time.Hour)
	for _, at := range []struct {
		after              time.Duration
		violations, events int
	}{{90 * 24 * time.Hour, 1, 1}, {90*24*time.Hour + time.Second, 1, 0}, {400 * 24 * time.Hour, 1, 0}, {400*24*time.Hour + time.Second, 0, 0}} {
		r.clock.advance(epoch.Add(at.after).Sub(r.clock.Now()))
		if _, err := AcceptClock(t.Context(), r.store, r.clock.Now()); err != nil {
			t.Fatal(err)
		}
		if err := keeper.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, events, err := r.tenant.ListUserEvents(t.Context(), store.Page{})
		if violations := len(r.violations()); err != nil || violations != at.violations || events != at.events {
			t.Errorf("after %v: %d violations, %d events, %v", at.after, violations, events, err)
		}
	}
}

// A worker that was paused in a pass for longer than its lease is valid cannot change
// anything once another worker has taken over.
func TestAPausedWorkerWritesNothing(t *testing.T) {
	r := newRig(t)
	r.sla("1h", nil, ptr(1))
	r.traces(10, epoch.Add(-time.Minute), time.Millisecond, store.TraceError, false)
	paused, next := NewEvaluator(r.options()), NewEvaluator(r.options())
	if mine, err := paused.acquire(t.Context()); err != nil || !mine {
		t.Fatal(mine, err)
	}
	r.clock.advance(leaseFor + time.Second)
	if mine, err := next.acquire(t.Context()); err != nil || !mine {
		t.Fatal(mine, err)
	}
	if err := paused.pass(store.UnderLease(t.Context(), paused.held)); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("the paused worker got %v", err)
	}
	if v := r.violations(); len(v) != 0 {
		t.Errorf("the paused worker wrote %+v", v)
	}
	if at, err := r.store.Watermark(t.Context(), evaluated); err != nil || !at.IsZero() {
		t.Errorf("the paused worker set the mark to %v, %v", at, err)
	}
	if err := next.pass(store.UnderLease(t.Context(), next.held)); err != nil || len(r.violations()) != 1 {
		t.Errorf("its successor: %v, %+v", err, r.violations())
	}
}
