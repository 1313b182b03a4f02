package flow

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// clock is a clock that a test sets.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func open(t *testing.T, o Options) *Memory {
	t.Helper()
	if o.Window == 0 {
		o.Window = time.Minute
	}
	m, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func set(t *testing.T, m *Memory, c Caller, n *Names, names ...string) {
	t.Helper()
	if err := m.Set(t.Context(), c, n.Of(names...), n); err != nil {
		t.Fatal(err)
	}
}

func has(t *testing.T, m *Memory, c Caller, n *Names, names ...string) {
	t.Helper()
	if got := m.Of(t.Context(), c, n); got != n.Of(names...) {
		t.Errorf("%v has %q, not %q", c, n.In(got), names)
	}
}

func TestLabelsEndAWindowAfterTheLastMessage(t *testing.T) {
	time := newClock()
	n := NewNames("private", "untrusted")
	m := open(t, Options{Names: n, Now: time.now})
	alice, bob := Caller{Key: "10:alice"}, Caller{Key: "10:bob"}
	set(t, m, alice, n, "private", "untrusted")
	has(t, m, bob, n)
	time.advance(40e9)
	set(t, m, alice, n, "private")
	time.advance(20e9)
	has(t, m, alice, n, "private")
	time.advance(39e9)
	has(t, m, alice, n, "private")
	time.advance(1e9)
	has(t, m, alice, n)
}

func TestAReloadKeepsLabels(t *testing.T) {
	time := newClock()
	old, names := NewNames("a", "b", "c"), NewNames("b", "b2", "c")
	m := open(t, Options{Names: old, Now: time.now})
	alice := Caller{Key: "10:alice"}
	set(t, m, alice, old, "a", "b")
	time.advance(20e9)
	set(t, m, alice, old, "c")
	m.Reconfigure(names, 60e9)
	has(t, m, alice, names, "b", "c")
	has(t, m, alice, old, "b", "c") // a request that began before
	if err := m.Set(t.Context(), alice, old.Of("a"), old); err == nil {
		t.Error("a label that is not declared any more was set")
	}
	m.Reconfigure(names, 20e9)
	has(t, m, alice, names, "c")
}

func TestCallersKnownByAddress(t *testing.T) {
	n := NewNames("a")
	m := open(t, Options{Names: n})
	by := func(s string) Caller { return Caller{Key: s, Address: netip.MustParseAddr(s)} }
	set(t, m, by("2001:db8::1"), n, "a")
	set(t, m, by("192.0.2.1"), n, "a")
	has(t, m, by("2001:db8::ffff:1"), n, "a")
	has(t, m, by("2001:db8:0:1::1"), n)
	has(t, m, by("::ffff:192.0.2.1"), n, "a")
	has(t, m, by("192.0.2.2"), n)
}

// A clock that steps back sheds no label, and makes none last longer than a window after a restart.
func TestTheClockStepsBack(t *testing.T) {
	dir, time := t.TempDir(), newClock()
	m := open(t, Options{Names: two, Now: time.now, StateDir: dir})
	set(t, m, alice, two, "private")
	time.advance(-3600e9)
	has(t, m, alice, two, "private")
	set(t, m, bob, two, "private")
	again := open(t, Options{Names: two, Now: time.now, StateDir: dir})
	has(t, again, alice, two, "private")
	time.advance(59e9)
	has(t, again, alice, two, "private")
	has(t, again, bob, two, "private")
	time.advance(1e9)
	has(t, again, alice, two)
}

// Requests, reloads, ticks and a command use a memory at the same time.
func TestMemoryIsConcurrent(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Options{Names: two, StateDir: dir})
	other := NewNames("other", "private")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				c := Caller{Key: fmt.Sprintf("1%d-%d", g, i%50)}
				if err := m.Set(t.Context(), c, two.Of("private"), two); err != nil {
					t.Error(err)
				}
				if l := m.Of(t.Context(), c, other); l != other.Of("private") {
					t.Errorf("%v has %q", c, other.In(l))
				}
			}
		})
	}
	wg.Go(func() {
		for range 50 {
			m.Reconfigure(other, time.Minute)
			m.tick()
			m.Reconfigure(two, time.Minute)
		}
	})
	wg.Go(func() {
		for range 5 {
			if _, err := Clear(t.Context(), dir, "nobody", ""); err != nil {
				t.Error(err)
			}
			if _, err := Show(dir, "", time.Minute, time.Now()); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
}

// A gateway without labels runs nothing in the background; from the reload that declares some, renewals are written.
func TestAMemoryWithoutLabelsDoesNothing(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Options{StateDir: dir, Window: time.Hour})
	if m.running {
		t.Error("it runs in the background")
	}
	m.Reconfigure(two, time.Hour)
	m.Reconfigure(NewNames(), time.Hour)
	m.Reconfigure(two, time.Hour)
	if !m.running {
		t.Error("it does not run in the background after a reload")
	}
	set(t, m, alice, two, "private")
	has(t, reopened(t, dir, Options{Window: time.Hour}), alice, two, "private")
}

func TestNamesOfASet(t *testing.T) {
	names := make([]string, 0, MaxNames)
	for i := range MaxNames {
		names = append(names, fmt.Sprintf("l%02d", i))
	}
	n := NewNames(names...)
	for range 2 { // the second time from those that are kept
		for l := range Labels(1<<MaxNames - 1) {
			if list := n.In(l); len(list) != l.Len() || n.Of(list...) != l {
				t.Fatalf("%b: %q", l, list)
			}
		}
	}
	if a := testing.AllocsPerRun(100, func() { _ = n.In(5) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}
