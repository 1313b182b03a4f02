//go:build unix

package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"svc/gateway/redis"
	"svc/gateway/redis/redistest"
)

// replica is a Shared with the sessions that it discarded.
type replica struct {
	*Shared
	mu        sync.Mutex
	discarded []string
}

func newReplica(t *testing.T, store Store) *replica {
	r := &replica{}
	r.Shared = NewShared(1000, store, newSealer(t, 1), func(open map[string]UpstreamSession) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, o := range open {
			r.discarded = append(r.discarded, o.ID)
		}
	})
	return r
}

// gone returns the discarded sessions.
func (r *replica) gone() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.discarded, " ")
}

// records connects to a store, with timeouts for a busy machine.
func records(t *testing.T, url string, cluster bool, timeout time.Duration) redis.Records {
	t.Helper()
	var cfg redis.StoreConfig
	cfg.SetDefaults()
	cfg.Type, cfg.URL, cfg.Cluster, cfg.OperationTimeout = redis.TypeRedis, url, cluster, timeout
	r, err := redis.NewRedis(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r.Records()
}

func TestStateInRedis(t *testing.T) {
	store := records(t, redistest.Start(t).URL(), false, 5*time.Second)
	testState(t, func(t *testing.T) sessionKept { return newReplica(t, store) })
}

func TestStateInACluster(t *testing.T) {
	store := records(t, redistest.StartCluster(t, 3, false).URL(), true, 5*time.Second)
	testState(t, func(t *testing.T) sessionKept { return newReplica(t, store) })
}

// opened is the upstream session that a replica uses; it must not open one.
func opened(t *testing.T, r *replica, id ID, upstream string) (string, error) {
	t.Helper()
	if r.Ended(t.Context(), id) {
		return "", ErrUnknown
	}
	o, err := r.Session(t.Context(), id, upstream, func(context.Context) (UpstreamSession, error) { return UpstreamSession{}, errors.New("none") })
	return o.ID, err
}

// Sessions that one replica opens, sets and ends are the same at the other.
func TestReplicasShareSessions(t *testing.T) {
	for name, store := range map[string]Store{
		"one server": records(t, redistest.Start(t).URL(), false, 5*time.Second),
		"cluster":    records(t, redistest.StartCluster(t, 3, false).URL(), true, 5*time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			one, other := newReplica(t, store), newReplica(t, store)
			id, ctx := NewID(), t.Context()
			one.SetParams(ctx, id, []byte(`{"p":1}`))
			one.SetLevel(ctx, id, []byte(`{"level":"info"}`))
			if p := string(params(t, other, id)); p != `{"p":1}` {
				t.Errorf("parameters %q", p)
			}
			other.SetLevel(ctx, id, []byte(`{"level":"debug"}`))
			if l := string(one.Level(ctx, id)); l != `{"level":"debug"}` {
				t.Errorf("level %q", l)
			}
			first, err := one.Session(ctx, id, "b", func(context.Context) (UpstreamSession, error) {
				return UpstreamSession{ID: "s1", Version: "2025-06-18"}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := other.Session(ctx, id, "b", opens("never")); got != first || err != nil {
				t.Errorf("the other has %v, %v", got, err)
			}
			// The second replica finds that the upstream lost the session, and opens
			// it again. The first finds the same later, and uses the new session.
			other.Forget(ctx, id, "b", first)
			second, err := other.Session(ctx, id, "b", opens("s2"))
			if err != nil || second.ID != "s2" {
				t.Fatalf("%v, %v", second, err)
			}
			one.Forget(ctx, id, "b", first)
			if got, err := opened(t, one, id, "b"); got != "s2" || err != nil {
				t.Errorf("the one has %q, %v", got, err)
			}
			one.Session(ctx, id, "c", opens("s3"))
			if got := other.All(ctx, id); !maps.Equal(got, map[string]UpstreamSession{"b": second, "c": {ID: "s3"}}) {
				t.Errorf("the other knows %v", got)
			}
			if got := other.End(ctx, id); len(got) != 2 || got["b"] != second || got["c"].ID != "s3" {
				t.Errorf("the end returned %v", got)
			}
			if !one.Ended(ctx, id) || len(one.All(ctx, id)) != 0 || params(t, one, id) != nil {
				t.Error("the session is known at the one")
			}
			if one.gone()+other.gone() != "" {
				t.Errorf("discarded %q %q", one.gone(), other.gone())
			}
		})
	}
}

// If replicas open an upstream session concurrently, one wins. The others use its
// session and discard their own.
func TestReplicasThatOpenAPairAtOnce(t *testing.T) {
	store := records(t, redistest.Start(t).URL(), false, 5*time.Second)
	const n = 8
	replicas := make([]*replica, n)
	for i := range replicas {
		replicas[i] = newReplica(t, store)
	}
	for round := range 10 {
		id := NewID()
		got := make([]string, n)
		var ready, wg sync.WaitGroup
		ready.Add(n)
		for i, r := range replicas {
			wg.Go(func() {
				o, err := r.Session(t.Context(), id, "b", func(context.Context) (UpstreamSession, error) {
					ready.Done()
					ready.Wait() // all replicas are opening
					return UpstreamSession{ID: fmt.Sprintf("%d.%d", round, i)}, nil
				})
				if err != nil {
					t.Error(err)
				}
				got[i] = o.ID
			})
		}
		wg.Wait()
		for i, r := range replicas {
			own := fmt.Sprintf("%d.%d", round, i)
			if got[i] != got[0] {
				t.Errorf("replica %d has %s, another %s", i, got[i], got[0])
			}
			if lost := own != got[0]; strings.Contains(" "+r.gone()+" ", " "+own+" ") != lost {
				t.Errorf("replica %d lost %v and discarded %q", i, lost, r.gone())
			}
		}
	}
}

// If a session ends at one replica while another opens an upstream session for it,
// nothing remains open.
func TestSessionThatEndsElsewhereWhileAPairIsOpened(t *testing.T) {
	store := records(t, redistest.Start(t).URL(), false, 5*time.Second)
	one, other := newReplica(t, store), newReplica(t, store)
	id := NewID()
	got, err := one.Session(t.Context(), id, "b", func(context.Context) (UpstreamSession, error) {
		other.End(t.Context(), id)
		return UpstreamSession{ID: "late"}, nil
	})
	if !errors.Is(err, ErrUnknown) || got.ID != "late" {
		t.Errorf("got %v, %v, want what was opened, to be closed", got, err)
	}
	if !one.Ended(t.Context(), id) {
		t.Error("the session has not ended")
	}
}

// While the store is unavailable a replica uses its own state, returns
// ErrUnavailable for the rest, and never waits longer than the operation timeout.
// When the store is back, empty, the state is written to it again.
func TestStoreOfSessionsThatFails(t *testing.T) {
	const timeout = 200 * time.Millisecond
	for name, fail := range map[string]struct {
		begin, end func(*redistest.Server)
		emptied    bool
	}{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart, true},
		"paused": {(*redistest.Server).Pause, (*redistest.Server).Resume, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			one := newReplica(t, records(t, server.URL(), false, timeout))
			other := newReplica(t, records(t, server.URL(), false, timeout))
			ctx := t.Context()
			known, ends, unknown := NewID(), NewID(), NewID()
			for _, id := range []ID{known, ends, unknown} {
				one.SetParams(ctx, id, []byte(`{}`))
				if _, err := one.Session(ctx, id, "b", opens("s")); err != nil {
					t.Fatal(err)
				}
			}
			fail.begin(server)
			began := time.Now()
			if got, err := opened(t, one, known, "b"); got != "s" || err != nil {
				t.Errorf("what it knows: %q, %v", got, err)
			}
			if _, err := opened(t, other, unknown, "b"); !errors.Is(err, ErrUnavailable) {
				t.Errorf("what it does not know: %v", err)
			}
			if _, err := one.Session(ctx, known, "c", opens("s")); !errors.Is(err, ErrUnavailable) {
				t.Errorf("a session that another may have opened: %v", err)
			}
			if _, err := other.Params(ctx, known); !errors.Is(err, ErrUnavailable) {
				t.Errorf("parameters: %v", err)
			}
			if all := one.All(ctx, known); len(all) != 1 {
				t.Errorf("all: %v", all)
			}
			if took := time.Since(began); took > 2*timeout+500*time.Millisecond {
				t.Errorf("two replicas waited %s in all", took)
			}
			if got := one.End(ctx, ends); got["b"].ID != "s" || !one.Ended(ctx, ends) {
				t.Errorf("the end returned %v", got)
			}
			one.SetLevel(ctx, known, []byte(`{"level":"debug"}`))
			fail.end(server)
			for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				if one.Ended(ctx, known) {
					t.Fatal("the session has ended")
				}
				if other.Ended(ctx, ends) && string(other.Level(ctx, known)) == `{"level":"debug"}` {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the store was not told what it missed")
				}
			}
			if got, err := opened(t, other, known, "b"); got != "s" || err != nil {
				t.Errorf("at the other afterwards: %q, %v", got, err)
			}
			if _, err := opened(t, other, unknown, "b"); (err != nil) != fail.emptied {
				t.Errorf("a session that nobody used since, after the store was emptied (%v): %v", fail.emptied, err)
			}
			if one.Ended(ctx, unknown); fail.emptied {
				if got, err := opened(t, other, unknown, "b"); got != "s" || err != nil {
					t.Errorf("after it was used where it is known: %q, %v", got, err)
				}
			}
		})
	}
}

// After the store was flushed, the replica that has the state writes it again. If
// two replicas opened a session meanwhile, one of them is discarded.
func TestStoreOfSessionsThatIsFlushed(t *testing.T) {
	server := redistest.Start(t)
	store := records(t, server.URL(), false, 5*time.Second)
	one, other := newReplica(t, store), newReplica(t, store)
	ctx, id := t.Context(), NewID()
	one.SetParams(ctx, id, []byte(`{"p":1}`))
	one.Session(ctx, id, "b", opens("first"))
	flush := func() {
		t.Helper()
		if _, err := server.Do("FLUSHALL"); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	if got, err := opened(t, one, id, "b"); got != "first" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := opened(t, other, id, "b"); got != "first" || err != nil || string(params(t, other, id)) != `{"p":1}` {
		t.Errorf("at the other: %q, %v", got, err)
	}
	flush()
	third := newReplica(t, store)
	third.Session(ctx, id, "b", opens("second"))
	if got, err := opened(t, third, id, "b"); got != "second" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := opened(t, one, id, "b"); got != "second" || err != nil || one.gone() != "first" {
		t.Errorf("the one has %q, %v and discarded %q", got, err, one.gone())
	}
}

// The store's content does not reveal the client's identity, parameters or sessions;
// each value is valid only for its own session and field, and only for replicas with
// the same key.
func TestStoreOfSessionsHoldsNothingOfUse(t *testing.T) {
	server := redistest.Start(t)
	store := records(t, server.URL(), false, 5*time.Second)
	one := newReplica(t, store)
	ctx, id, victim := t.Context(), NewID(), NewID()
	one.SetParams(ctx, id, []byte(`{"clientInfo":"SECRET"}`))
	one.SetLevel(ctx, id, []byte(`{"level":"SECRET"}`))
	one.Session(ctx, id, "b", func(context.Context) (UpstreamSession, error) {
		return UpstreamSession{ID: "SECRET", Version: "SECRET"}, nil
	})
	one.Session(ctx, victim, "b", opens("its own"))
	key := "mcpgw:rl:{record:" + name(id) + "}"
	all, err := server.Do("HGETALL", key)
	if text := fmt.Sprintf("%q", all); err != nil || !strings.Contains(text, "params") || strings.Contains(text, "SECRET") {
		t.Errorf("the store holds %s, %v", text, err)
	}
	if ttl, err := server.Do("TTL", key); err != nil || ttl.(int64) < 3600 {
		t.Errorf("it lives for %v, %v", ttl, err)
	}
	stranger := newReplica(t, store)
	stranger.sealer = newSealer(t, 2)
	if stranger.Params(ctx, id); len(stranger.All(ctx, id)) != 0 {
		t.Error("another key opens it")
	}
	// An attacker with write access to the store moves a value to another session,
	// or writes one.
	fields, err := store.Fields(ctx, name(id))
	if err != nil {
		t.Fatal(err)
	}
	for _, forged := range []string{fields["at:b"], fields["params"], "", "x", strings.Repeat("x", maxSealed+1)} {
		for _, field := range []string{"at:b", "params", "level"} {
			if err := store.Set(ctx, name(victim), field, forged, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		other := newReplica(t, store)
		if p, l := params(t, other, victim), other.Level(ctx, victim); p != nil || l != nil {
			t.Errorf("took %q, %q", p, l)
		}
		if got := other.All(ctx, victim); len(got) != 0 {
			t.Errorf("took %v", got)
		}
		// An invalid value is replaced by a session that is opened again.
		if got, err := other.Session(ctx, victim, "b", opens("again")); got.ID != "again" || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// The memory of this process is bounded, and the upstream sessions of an evicted
// session stay open: other replicas use them.
func TestSharedIsBounded(t *testing.T) {
	store := records(t, redistest.Start(t).URL(), false, 5*time.Second)
	discarded := false
	s := NewShared(2, store, newSealer(t, 1), func(map[string]UpstreamSession) { discarded = true })
	first := NewID()
	for i := range 5 {
		id := first
		if i > 0 {
			id = NewID()
		}
		s.Session(t.Context(), id, "b", opens("s"))
	}
	if s.Len() != 2 || discarded {
		t.Errorf("%d remembered, discarded: %v", s.Len(), discarded)
	}
	if got, err := s.Session(t.Context(), first, "b", opens("again")); got.ID != "s" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for range maxUnsynced + 10 {
		s.markUnsynced(NewID())
	}
	if n := s.unsyncedCount.Load(); n != maxUnsynced {
		t.Errorf("%d wait to be told", n)
	}
}

// BenchmarkRequest measures the lookups of a request whose session has several
// upstreams: whether it has ended, and its upstream session.
func BenchmarkRequest(b *testing.B) {
	var cfg redis.StoreConfig
	cfg.SetDefaults()
	cfg.Type, cfg.URL, cfg.OperationTimeout = redis.TypeRedis, redistest.Start(b).URL(), time.Second
	r, err := redis.NewRedis(cfg, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for name, p := range map[string]sessionKept{
		"memory": NewMemory(1000, nil),
		"redis":  NewShared(1000, r.Records(), newSealer(b, 1), func(map[string]UpstreamSession) {}),
	} {
		b.Run(name, func(b *testing.B) {
			id, ctx := NewID(), b.Context()
			p.SetParams(ctx, id, []byte(`{}`))
			for b.Loop() {
				if p.Ended(ctx, id) {
					b.Fatal("ended")
				}
				if _, err := p.Session(ctx, id, "b", opens("s")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
