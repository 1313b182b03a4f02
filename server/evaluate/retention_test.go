package evaluate

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"svc/store"
)

// backlogs is a store whose tenants have rows to remove. It records who was
// asked, and removes a thousand rows of a tenant at a time.
type backlogs struct {
	Records
	ids    []string
	rows   map[string]int
	took   time.Duration // a transaction takes
	fails  string        // the tenant whose transactions fail
	turns  []string
	leases int
	held   int // how often the lease is still ours; 0: always
}

func (b *backlogs) AcquireLease(context.Context, string, string, time.Duration) (store.Lease, bool, error) {
	b.leases++
	return store.Lease{Name: "retention"}, b.held == 0 || b.leases <= b.held, nil
}

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

func (backlog) Trim(context.Context, store.TrimBounds) (store.TrimResult, error) {
	return store.TrimResult{}, nil
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
		if err := NewRetention(Options{Records: b, Traces: b}, time.Hour).Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		for id, n := range b.rows {
			if n != 0 {
				t.Errorf("tenant %s has %d old rows left", id, n)
			}
		}
		// The tenant with the backlog does not delay the others.
		if want := []string{"a", "b", "c", "a", "c", "a", "c", "a"}; !slices.Equal(b.turns[:8], want) {
			t.Errorf("turns %v, want %v first", b.turns[:8], want)
		}
	})
}

func TestATenantThatFailsDoesNotStopRetention(t *testing.T) {
	b := &backlogs{ids: []string{"a", "b"}, rows: map[string]int{"a": 5, "b": 5}, fails: "a"}
	err := NewRetention(Options{Records: b, Traces: b}, time.Hour).Step(t.Context())
	if err == nil || b.rows["b"] != 0 || slices.Index(b.turns, "a") != 0 || len(b.turns) != 2 {
		t.Errorf("%v, turns %v, left %v", err, b.turns, b.rows)
	}
}

func TestRetentionEndsWhenAnotherProcessHoldsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backlogs{ids: []string{"a"}, rows: map[string]int{"a": 1 << 40}, took: time.Second, held: 3}
		if err := NewRetention(Options{Records: b, Traces: b}, time.Hour).Step(t.Context()); err != nil || b.leases != 4 {
			t.Errorf("%v, the lease was asked for %d times", err, b.leases)
		}
	})
}

func TestRetentionStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b := &backlogs{ids: []string{"a"}, rows: map[string]int{"a": 1 << 40}, took: 50 * time.Millisecond}
		if err := NewRetention(Options{Records: b, Traces: b}, time.Hour).Step(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		// Half of the time was left to others.
		if n := len(b.turns); n < 590 || n > 610 {
			t.Errorf("%d transactions of 50 ms in a minute, want 600", n)
		}
	})
}

// A worker whose pass is late keeps its lease: another one that looks an interval
// later does not take the work over.
func TestALeaseOutlivesOneInterval(t *testing.T) {
	r := newRig(t)
	o := r.options()
	o.Interval = time.Minute
	first, second := NewEvaluator(o), NewEvaluator(o)
	if _, held, err := r.store.AcquireLease(t.Context(), first.lease, first.holder, first.ttl()); !held || err != nil {
		t.Fatal(held, err)
	}
	r.clock.advance(o.Interval + time.Second)
	if _, held, err := r.store.AcquireLease(t.Context(), second.lease, second.holder, second.ttl()); held || err != nil {
		t.Errorf("a second worker has the lease one interval later: %v", err)
	}
	r.clock.advance(o.Interval)
	if _, held, err := r.store.AcquireLease(t.Context(), second.lease, second.holder, second.ttl()); !held || err != nil {
		t.Errorf("a worker that is gone keeps its lease: %v", err)
	}
}

// The longest period that is asked for by the minute keeps its minutes.
func TestStatisticsOfADayKeepTheirMinutes(t *testing.T) {
	r := newRig(t)
	r.traces(1, epoch.Add(-23*time.Hour-30*time.Minute), time.Millisecond, store.TraceSuccess, false)
	r.traces(1, epoch.Add(-72*time.Hour), time.Millisecond, store.TraceSuccess, false)
	if err := NewRetention(r.options(), 0).Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	from := epoch.Add(-24*time.Hour + 17*time.Minute)
	stats, err := r.stored.Stats(t.Context(), store.StatsQuery{From: from, To: epoch})
	if err != nil || !stats.From.Equal(from) || stats.Summary.Traces != 1 {
		t.Errorf("statistics from %v: from %v, %d traces, %v", from, stats.From, stats.Summary.Traces, err)
	}
}

// Violations are kept for 400 days after their periods, and identity events for 90
// days after their receipt, however long traces are kept.
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
		if err := keeper.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, events, err := r.tenant.ListUserEvents(t.Context(), store.Page{})
		if violations := len(r.violations()); err != nil || violations != at.violations || events != at.events {
			t.Errorf("after %v: %d violations, %d events, %v", at.after, violations, events, err)
		}
	}
}

// A worker that was paused in its pass for longer than its lease lasts changes
// nothing any more once another one has taken over.
func TestAPausedWorkerWritesNothing(t *testing.T) {
	r := newRig(t)
	r.sla("1h", nil, ptr(1))
	r.traces(10, epoch.Add(-time.Minute), time.Millisecond, store.TraceError, false)
	paused, next := NewEvaluator(r.options()), NewEvaluator(r.options())
	if mine, err := paused.acquire(t.Context()); err != nil || !mine {
		t.Fatal(mine, err)
	}
	r.clock.advance(paused.ttl() + time.Second)
	if mine, err := next.acquire(t.Context()); err != nil || !mine {
		t.Fatal(mine, err)
	}
	if err := paused.pass(store.UnderLease(t.Context(), paused.held)); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("the paused worker got %v", err)
	}
	if v := r.violations(); len(v) != 0 {
		t.Errorf("the paused worker wrote %+v", v)
	}
	if at, err := r.store.Mark(t.Context(), evaluated); err != nil || !at.IsZero() {
		t.Errorf("the paused worker set the mark to %v, %v", at, err)
	}
	if err := next.pass(store.UnderLease(t.Context(), next.held)); err != nil || len(r.violations()) != 1 {
		t.Errorf("its successor: %v, %+v", err, r.violations())
	}
}
