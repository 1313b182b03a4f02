package retry

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestBreaker walks through the rows of the gateway specification, States and transitions. A step
// is a call: whether it is admitted, and its outcome.
func TestBreaker(t *testing.T) {
	const window = 5 * time.Second
	type step struct {
		wait   time.Duration // before the call
		want   bool          // admitted
		told   Outcome
		opened bool
	}
	fail := func(opened bool) step { return step{want: true, told: Failed, opened: opened} }
	pass := step{want: true, told: Succeeded}
	skip := step{want: false}
	after := func(d time.Duration, s step) step { s.wait = d; return s }
	for _, c := range []struct {
		name      string
		threshold int
		window    time.Duration
		steps     []step
	}{
		{"closed to open: consecutive failures reach the threshold", 3, window,
			[]step{fail(false), fail(false), fail(true), skip, skip}},
		{"closed stays closed: any success clears the run", 3, window,
			[]step{fail(false), fail(false), pass, fail(false), fail(false), pass, fail(false), fail(false), fail(true), skip}},
		{"open until open_duration elapses", 1, window,
			[]step{fail(true), after(window-1, skip), after(1, pass), pass}},
		{"half-open to closed: the probe succeeds and the run is cleared", 2, window,
			[]step{fail(false), fail(true), after(window, pass), fail(false), fail(true)}},
		{"half-open to open: the probe fails, another window", 3, window,
			[]step{fail(false), fail(false), fail(true), after(window, fail(true)), skip, after(window-1, skip), after(1, pass), pass}},
		{"cancellations do not count", 2, window,
			[]step{fail(false), {want: true, told: Abandoned}, {want: true, told: Abandoned}, fail(true)}},
		{"a cancellation does not clear the run", 2, window,
			[]step{fail(false), {want: true, told: Abandoned}, fail(true)}},
		{"a canceled probe frees its slot", 1, window,
			[]step{fail(true), after(window, step{want: true, told: Abandoned}), fail(true), skip}},
		{"threshold 0 disables", 0, window,
			[]step{fail(false), fail(false), fail(false), fail(false), pass}},
		{"open_duration 0 probes at once", 1, 0,
			[]step{fail(true), fail(true), pass, pass}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := Breaker{threshold: c.threshold, window: c.window}
			now := time.Unix(1000, 0)
			for i, s := range c.steps {
				now = now.Add(s.wait)
				era, ok := b.Allow(now)
				if ok != s.want {
					t.Fatalf("step %d: admitted %v, want %v", i, ok, s.want)
				}
				if !ok {
					continue
				}
				if opened := b.Report(era, s.told, now); opened != s.opened {
					t.Fatalf("step %d: opened %v, want %v", i, opened, s.opened)
				}
			}
		})
	}
}

func TestBreakerHalfOpenAdmitsExactlyOneProbe(t *testing.T) {
	b := Breaker{threshold: 1, window: time.Second}
	now := time.Unix(1000, 0)
	era, _ := b.Allow(now)
	b.Report(era, Failed, now)
	now = now.Add(time.Second)
	probe, ok := b.Allow(now)
	if !ok {
		t.Fatal("the probe was not admitted")
	}
	for range 10 {
		if _, ok := b.Allow(now.Add(time.Hour)); ok {
			t.Fatal("a second call during the probe")
		}
	}
	b.Report(probe, Succeeded, now)
	for range 3 {
		if _, ok := b.Allow(now); !ok {
			t.Fatal("not closed after the probe")
		}
	}
}

// TestBreakerLateOutcomes: the outcome of a call that began before a transition does not change
// the state after it.
func TestBreakerLateOutcomes(t *testing.T) {
	b := Breaker{threshold: 1, window: time.Second}
	now := time.Unix(1000, 0)
	lateGood, _ := b.Allow(now)
	lateBad, _ := b.Allow(now)
	first, _ := b.Allow(now)
	if !b.Report(first, Failed, now) {
		t.Fatal("did not open")
	}
	b.Report(lateGood, Succeeded, now)
	if _, ok := b.Allow(now); ok {
		t.Fatal("a success from before closed it")
	}
	now = now.Add(time.Second)
	probe, _ := b.Allow(now)
	if b.Report(lateBad, Failed, now) {
		t.Fatal("a failure from before opened it again")
	}
	if _, ok := b.Allow(now); ok {
		t.Fatal("a failure from before allowed a second probe")
	}
	b.Report(probe, Succeeded, now)
	if _, ok := b.Allow(now); !ok {
		t.Fatal("not closed after the probe")
	}
}

// TestBreakerModel compares the breaker with the table, implemented as three states.
func TestBreakerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		threshold := rapid.IntRange(0, 4).Draw(t, "threshold")
		const window = 10
		b := Breaker{threshold: threshold, window: window}
		now := time.Unix(1000, 0)
		type call struct {
			era   uint64
			model int // the version of the state when the call was admitted
		}
		state, number, run, probing := "closed", 0, 0, false
		var opensAgain time.Time
		var under []call
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "wait")))
			if state == "open" && !now.Before(opensAgain) {
				state = "half-open" // the version stays until the probe has reported
			}
			if len(under) == 0 || rapid.Bool().Draw(t, "begin") {
				era, ok := b.Allow(now)
				want := state == "closed" || state == "half-open" && !probing
				if ok != want {
					t.Fatalf("%s, probing %v: admitted %v", state, probing, ok)
				}
				if ok {
					probing = state == "half-open"
					under = append(under, call{era, number})
				}
				continue
			}
			i := rapid.IntRange(0, len(under)-1).Draw(t, "which")
			c := under[i]
			under = append(under[:i], under[i+1:]...)
			o := Outcome(rapid.IntRange(0, 2).Draw(t, "Outcome"))
			opened := b.Report(c.era, o, now)
			want := false
			if c.model == number && threshold > 0 {
				wasProbe := state == "half-open"
				probing = false
				switch o {
				case Succeeded:
					run = 0
					if wasProbe {
						state = "closed"
						number++
					}
				case Failed:
					run++
					if wasProbe || run >= threshold {
						state, want, run = "open", true, 0
						opensAgain = now.Add(window)
						number++
					}
				}
			}
			if opened != want {
				t.Fatalf("opened %v, want %v", opened, want)
			}
		}
	})
}
