package bolt

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"svc/store"
)

func TestRowsOfATransactionFollowItsTime(t *testing.T) {
	for _, row := range []struct {
		rows       int
		took, disk time.Duration
		want       int
	}{
		{1000, time.Millisecond, 5 * time.Millisecond, 2000},
		{1000, 50 * time.Millisecond, 5 * time.Millisecond, 1000},
		{1000, 200 * time.Millisecond, 5 * time.Millisecond, 500},
		{1000, 200 * time.Millisecond, 150 * time.Millisecond, 1000},
		{1000, 200 * time.Millisecond, time.Second, 2000},
		{maxRows, time.Millisecond, 0, maxRows},
		{minRows, time.Second, 0, minRows},
	} {
		t.Run(fmt.Sprint(row.rows, row.took, row.disk), func(t *testing.T) {
			if got := nextRows(row.rows, row.took, row.disk); got != row.want {
				t.Errorf("%d rows, want %d", got, row.want)
			}
		})
	}
}

// expiring returns a store with 450 traces, ten minutes apart from start on, all
// too old.
func expiring(t *testing.T, fault func() error) (tn *tenant, start time.Time) {
	clock := newClock()
	s := openTemp(t, Options{Now: clock.Now, NoSync: true, fault: fault})
	if _, _, err := s.CreateTenant(t.Context(), store.TenantCreate{ID: "t", Name: "t"}); err != nil {
		t.Fatal(err)
	}
	start = clock.Now().UTC().Truncate(time.Hour)
	clock.Advance(10 * 24 * time.Hour)
	batch := make([]store.Trace, 450)
	for i := range batch {
		batch[i] = store.Trace{ID: fmt.Sprint(i), AgentName: "a", Status: store.TraceSuccess, CreatedAt: start.Add(time.Duration(i) * 10 * time.Minute)}
	}
	tn = s.tenant("t")
	mustIngest(t, tn, batch)
	return tn, start
}

// A backlog of traces leaves the minute rollups their own share of a transaction,
// and no transaction removes more than its limit.
func TestAStepOfExpireIsBounded(t *testing.T) {
	tn, start := expiring(t, nil)
	b := store.ExpireBounds{Traces: start.Add(2500 * time.Minute), Minutes: start.Add(3 * time.Hour)}
	res, _, _, err := tn.expireStep(t.Context(), b, 4)
	if err != nil || res.Traces != 4 || res.Minutes == 0 || !res.More {
		t.Errorf("a step of four rows a kind: %+v, %v", res, err)
	}
	tn.s.expireRows.Store(60)
	if res, err = tn.Expire(t.Context(), b); err != nil || res.Traces != 60 || !res.More {
		t.Errorf("a call without a budget is one step: %+v, %v", res, err)
	}
	if res, err = tn.Expire(t.Context(), store.ExpireBounds{Traces: b.Traces, Budget: time.Hour}); err != nil || res.Traces != 186 || res.More {
		t.Errorf("a call with enough of a budget removes the rest: %+v, %v", res, err)
	}
}

// On a disk with slow syncs the steps become larger.
func TestStepsOfExpireGrowOnASlowDisk(t *testing.T) {
	var slow atomic.Bool
	tn, start := expiring(t, func() error {
		if slow.Load() {
			<-time.After(2 * tooSlow)
		}
		return nil
	})
	slow.Store(true)
	tn.s.expireRows.Store(60)
	res, err := tn.Expire(t.Context(), store.ExpireBounds{Traces: start.Add(2500 * time.Minute)})
	slow.Store(false)
	if rows := tn.s.expireRows.Load(); err != nil || res.Traces != 60 || rows != 120 {
		t.Errorf("%+v, %v; the next step has %d rows", res, err, rows)
	}
}
