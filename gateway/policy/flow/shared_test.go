//go:build unix

package flow_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/policy/flow"
	"svc/gateway/redis"
	"svc/gateway/redis/redistest"
)

// clock is a clock that a test sets.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Now().UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func store(t *testing.T, url string, timeout time.Duration) *redis.Redis {
	t.Helper()
	var cfg redis.StoreConfig
	cfg.SetDefaults()
	cfg.Type, cfg.URL, cfg.OperationTimeout = redis.TypeRedis, url, timeout
	r, err := redis.NewRedis(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Authenticate(make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

var names = flow.NewNames("a", "b")

// gateway is a Memory with what a test does with it.
type gateway struct {
	*flow.Memory
	t *testing.T
}

func newGateway(t *testing.T, o flow.Options) gateway {
	t.Helper()
	if o.Names = names; o.Window == 0 {
		o.Window = time.Minute
	}
	m, err := flow.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return gateway{m, t}
}

func (g gateway) set(c flow.Caller, label string) error {
	return g.Set(g.t.Context(), c, names.Of(label), names)
}

func (g gateway) must(c flow.Caller, label string) {
	g.t.Helper()
	if err := g.set(c, label); err != nil {
		g.t.Fatal(err)
	}
}

func (g gateway) has(what string, c flow.Caller, want ...string) {
	g.t.Helper()
	if got := g.Of(g.t.Context(), c, names); got != names.Of(want...) {
		g.t.Errorf("%s: %q, not %q", what, names.In(got), want)
	}
}

// eventually waits for something that a gateway does in the background.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.After(20 * time.Second); !done(); {
		select {
		case <-end:
			t.Fatal(what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestReplicasShareLabels(t *testing.T) {
	server := redistest.Start(t)
	dir := t.TempDir()
	one, other := newGateway(t, flow.Options{Store: store(t, server.URL(), 5*time.Second), StateDir: dir}), newGateway(t, flow.Options{Store: store(t, server.URL(), 5*time.Second)})
	alice, bob := caller(auth.KindKey, "", "alice"), flow.Caller{Key: "id", Session: true}
	one.has("no label", alice)
	one.must(alice, "a")
	other.has("set by one", alice, "a")
	other.must(alice, "b")
	one.has("set by the other", alice, "a", "b")
	one.must(bob, "b")
	other.has("a session", bob, "b")

	// The store is empty after its restart: everybody counts as having every label until those who still know the
	// labels have put them back.
	server.Restart()
	carol := caller(auth.KindKey, "", "carol")
	for _, g := range []gateway{one, other} {
		eventually(t, "it does not answer again", func() bool { return g.Of(t.Context(), carol, names) == 0 })
		g.has("put back", alice, "a", "b")
		g.has("put back", bob, "b")
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got, err := flow.ShowShared(ctx, store(t, server.URL(), 5*time.Second), "key:alice", issuer, names, time.Minute, time.Now()); err != nil || words(got) != "key:alice a+b" {
		t.Errorf("shown: %s, %v", words(got), err)
	}
	if got, err := flow.Clear(ctx, dir, "alice", issuer); err != nil || words(got) != "key:alice a+b" {
		t.Errorf("cleared: %s, %v", words(got), err)
	}
	one.has("cleared", alice)
	other.has("cleared at one", alice)
	one.must(alice, "b")
	other.must(alice, "a")
	other.must(alice, "b")
	if got, err := flow.Clear(ctx, dir, "alice", issuer, "b"); err != nil || words(got) != "key:alice b" {
		t.Errorf("one label cleared: %s, %v", words(got), err)
	}
	one.has("one label cleared", alice, "a")
	other.has("one label cleared at one", alice, "a")
	other.must(alice, "a")
	one.has("set after it was cleared", alice, "a")
	other.has("set after it was cleared", alice, "a")
}

func TestTheStoreIsAway(t *testing.T) {
	for name, failOpen := range map[string]bool{"closed": false, "open": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			clock := newClock()
			o := flow.Options{FailOpen: failOpen, Now: clock.now}
			o.Store = store(t, server.URL(), 500*time.Millisecond)
			one := newGateway(t, o)
			o.Store = store(t, server.URL(), 500*time.Millisecond)
			other := newGateway(t, o)
			alice, bob := caller(auth.KindKey, "", "alice"), caller(auth.KindKey, "", "bob")
			one.must(alice, "a")
			server.Pause()
			if failOpen {
				one.has("its own label", alice, "a")
				other.has("the label of another", alice)
			} else {
				one.has("every label", alice, "a", "b")
				other.has("every label", bob, "a", "b")
			}
			if err := one.set(alice, "b"); (err == nil) != failOpen {
				t.Errorf("a label that is not shared: %v", err)
			}
			if err := one.set(alice, "a"); err != nil {
				t.Errorf("a label that is shared: %v", err)
			}
			clock.advance(45 * time.Second) // the store knows it for 15 more seconds only
			if err := one.set(alice, "a"); (err == nil) != failOpen {
				t.Errorf("a label that is not shared for long: %v", err)
			}
			server.Resume()
			eventually(t, "the store does not answer again", func() bool { return other.Of(t.Context(), bob, names) == 0 })
			eventually(t, "what the store could not take is not written later", func() bool { return other.Of(t.Context(), alice, names) == names.Of("a", "b") })
		})
	}
}

// After a restart of the store, the labels of callers who do not call are put back, too.
func TestTheStoreIsEmptied(t *testing.T) {
	server := redistest.Start(t)
	one, other := newGateway(t, flow.Options{Store: store(t, server.URL(), time.Second)}), newGateway(t, flow.Options{Store: store(t, server.URL(), time.Second)})
	alice, bob := caller(auth.KindKey, "", "alice"), caller(auth.KindKey, "", "bob")
	one.must(alice, "a")
	server.Kill()
	one.has("the store is away", bob, "a", "b")
	server.Restart()
	eventually(t, "the store does not answer again", func() bool { return one.Of(t.Context(), bob, names) == 0 })
	eventually(t, "the label is not put back", func() bool { return other.Of(t.Context(), alice, names) == names.Of("a") })
}

// When somebody empties the store, every gateway notices without a call, counts every caller as having every label
// for a while, and writes what it knows.
func TestTheStoreIsFlushed(t *testing.T) {
	for name, failOpen := range map[string]bool{"closed": false, "open": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			o := flow.Options{FailOpen: failOpen}
			o.Store = store(t, server.URL(), 5*time.Second)
			one := newGateway(t, o)
			o.Store = store(t, server.URL(), 5*time.Second)
			other := newGateway(t, o)
			alice, bob := caller(auth.KindKey, "", "alice"), caller(auth.KindKey, "", "bob")
			one.must(alice, "a")
			other.has("before", alice, "a")
			if _, err := server.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			if !failOpen {
				other.has("at once", alice, "a", "b")
				other.has("another caller", bob, "a", "b")
			}
			eventually(t, "the label is not put back", func() bool { return other.Of(t.Context(), alice, names) == names.Of("a") })
			other.has("another caller, later", bob)
		})
	}
}

// A gateway that starts writes the labels of its file to the store, which may have lost them.
func TestLabelsOfTheFileAreShared(t *testing.T) {
	server, dir := redistest.Start(t), t.TempDir()
	alice := caller(auth.KindKey, "", "alice")
	before := newGateway(t, flow.Options{StateDir: dir})
	before.must(alice, "a")
	newGateway(t, flow.Options{StateDir: dir, Store: store(t, server.URL(), time.Second)})
	other := newGateway(t, flow.Options{Store: store(t, server.URL(), time.Second)})
	eventually(t, "the label is not shared", func() bool { return other.Of(t.Context(), alice, names) == names.Of("a") })
}
