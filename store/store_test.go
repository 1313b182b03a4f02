package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestBudgetWindow(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, row := range []struct {
		period        BudgetPeriod
		now, from, to string
	}{
		{Daily, "2026-03-29T01:30:00Z", "2026-03-29T00:00:00Z", "2026-03-30T00:00:00Z"},
		{Daily, "2026-03-29T23:30:00-05:00", "2026-03-30T00:00:00Z", "2026-03-31T00:00:00Z"},
		{Weekly, "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"}, // a Sunday
		{Weekly, "2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"}, // a Monday
		{Weekly, "2027-01-01T12:00:00Z", "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{Monthly, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{Monthly, "2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
	} {
		from, to := row.period.Window(at(row.now))
		if !from.Equal(at(row.from)) || !to.Equal(at(row.to)) {
			t.Errorf("%s at %s: %v to %v, want %s to %s", row.period, row.now, from, to, row.from, row.to)
		}
	}
}

func TestMoney(t *testing.T) {
	for _, row := range []struct {
		usd  float64
		want NanoUSD
		ok   bool
	}{{0, 0, true}, {math.Copysign(0, -1), 0, true}, {0.1, 100_000_000, true}, {1e-9, 1, true}, {MaxUSD, 1e18, true},
		{-0.01, 0, false}, {math.NaN(), 0, false}, {math.Inf(1), 0, false}, {MaxUSD * 1.01, 0, false}} {
		if got, ok := DollarsToNano(row.usd); got != row.want || ok != row.ok {
			t.Errorf("%v: %d, %v", row.usd, got, ok)
		}
	}
	if s := NanoUSD(-1_500_000_001).String(); s != "-$1.500000001" {
		t.Errorf("text %s", s)
	}
	var sum NanoUSD
	for range 10 {
		n, _ := DollarsToNano(0.1)
		sum += n
	}
	if sum.USD() != 1 {
		t.Errorf("ten times 0.1 is %v", sum.USD())
	}
}

// The mean cost has no digits that come from the division alone.
func TestAvgCostHasNoDigitsOfTheDivision(t *testing.T) {
	for _, tt := range []struct {
		nano, traces int64
		want         float64
	}{{2_700_000_000, 8, 0.3375}, {1, 3, 3.33e-10}, {1_000_000_000, 3, 0.333333333333}, {0, 0, 0}} {
		totals := Totals{Traces: tt.traces, Cost: NanoUSD(tt.nano)}
		if got := totals.AvgCostUSD(); got != tt.want {
			t.Errorf("%d nano-dollars of %d traces: %v, want %v", tt.nano, tt.traces, got, tt.want)
		}
	}
}

// TestIDs makes ids in many goroutines with a clock that stops and steps
// back: the ids are unique and sort in the order in which each goroutine made
// them.
func TestIDs(t *testing.T) {
	var g IDs
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var mine []string
			for i := range 5000 {
				mine = append(mine, g.New(PrefixTeam, time.UnixMilli(1_700_000_000_000-int64(i))))
			}
			if !slices.IsSorted(mine) {
				t.Error("ids do not sort as they were made")
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 20000 {
		t.Errorf("%d different ids of 20000", n)
	}
	if early, late := g.New("x_", time.UnixMilli(0)), g.New("x_", time.UnixMilli(1_800_000_000_000)); early >= late || len(late) != 28 {
		t.Errorf("%s does not sort before %s", early, late)
	}
}

func TestPageBounds(t *testing.T) {
	for _, row := range []struct {
		page        Page
		n, from, to int
	}{{Page{}, 3, 0, 3}, {Page{Limit: 2}, 3, 0, 2}, {Page{Limit: 2, Offset: 2}, 3, 2, 3}, {Page{Limit: 2, Offset: 9}, 3, 3, 3},
		{Page{Limit: math.MaxInt, Offset: 1}, 3, 1, 3}, {Page{Limit: 1, Offset: -1}, 3, 0, 1}} {
		if from, to := row.page.Bounds(row.n); from != row.from || to != row.to {
			t.Errorf("%+v of %d: %d to %d", row.page, row.n, from, to)
		}
	}
}

func TestErrors(t *testing.T) {
	err := fmt.Errorf("wrapped: %w", AlreadyExists("team", "x"))
	if KindOf(err) != Conflict || KindOf(errors.New("x")) != Internal || KindOf(Missing("team")) != NotFound {
		t.Error("kinds are not found through wrapping")
	}
	if got := AlreadyExists("team", "x").Error(); got != `team "x" already exists: name already exists` {
		t.Errorf("text %q", got)
	}
}

// A message about a resource does not say which one.
func TestApprovalEventOfAResource(t *testing.T) {
	e := ApprovalEvent(EventApprovalRequested, "", &Approval{ID: "apr_1", ApprovalCall: ApprovalCall{Tool: "db://patients/ada", Method: "resources/read"}})
	if e.Subject.Name != "db:…" || e.Data["tool"] != "db:…" {
		t.Errorf("%+v", e)
	}
	if e := ApprovalEvent(EventApprovalRequested, "", &Approval{ApprovalCall: ApprovalCall{Tool: "pay: now", Method: "tools/call"}}); e.Subject.Name != "pay: now" {
		t.Errorf("%+v", e)
	}
}
