package auth

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// fill puts n computations of an origin into the queue of a limiter.
func fill(t testing.TB, g *limiter, n int, address, id string) (list []*waiter) {
	t.Helper()
	for range n {
		w := g.enqueue(origin{networkOf(address), id}, g.cores*g.unit)
		if w == nil {
			t.Fatalf("%s, %s: no place", address, id)
		}
		list = append(list, w)
	}
	return list
}

// A flood under the id of a key does not lock out the first use of this key from another
// address: the owner waits for one computation of the flood, and the flood for itself.
func TestFirstUseOfAKeyUnderFlood(t *testing.T) {
	for _, tt := range []struct {
		name, flood, owner, id string
		turns                  int
	}{
		{"the same id from another address", "192.0.2.1", "198.51.100.1", "alice", 0},
		{"the same id from another /64", "2001:db8:0:1::1", "2001:db8:0:2::1", "alice", 0},
		{"another id from the same address", "192.0.2.1", "192.0.2.1", "bob", 0},
		{"the same id and address", "192.0.2.1", "192.0.2.1", "alice", 47},
		{"the same id and /64", "2001:db8:0:1::1", "2001:db8:0:1::2", "alice", 47},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newLimiter(2)
			running := fill(t, g, 48, tt.flood, "alice")[0]
			owner := fill(t, g, 1, tt.owner, tt.id)[0]
			for turns := 0; ; turns++ {
				g.release(running)
				if len(owner.ready) > 0 {
					if !<-owner.ready || turns != tt.turns {
						t.Errorf("the owner waits for %d computations of the flood, want %d", turns, tt.turns)
					}
					break
				}
				fill(t, g, 1, tt.flood, "alice")
				for _, w := range queued(g) {
					if w.origin == running.origin {
						running = w
						break
					}
				}
				if turns > 100 {
					t.Fatal("the owner waits forever")
				}
			}
		})
	}
}

// queued returns the computations of a limiter that wait.
func queued(g *limiter) []*waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.waiting)
}

// One origin has a share of the queue. In a full queue a newcomer takes the last place of the
// network that has the most, or of the id that has the most in its own network, but no place of
// one that has no more than itself.
func TestQueueIsBoundedAndSharedFairly(t *testing.T) {
	g := newLimiter(2)
	fill(t, g, 1+maxQueuedPerOrigin, "192.0.2.1", "a") // the first one runs
	if g.enqueue(origin{networkOf("192.0.2.1"), "a"}, 1) != nil {
		t.Error("one origin took more than its share")
	}
	for _, id := range []string{"b", "c", "d"} {
		fill(t, g, maxQueuedPerOrigin, "192.0.2.1", id)
	}
	if n := len(queued(g)); n != maxQueued {
		t.Fatalf("%d wait, want a full queue of %d", n, maxQueued)
	}
	last := queued(g)[maxQueued-1]
	fill(t, g, 1, "198.51.100.1", "a")
	if len(last.ready) != 1 || <-last.ready || len(queued(g)) != maxQueued {
		t.Error("another network did not take the place of the last computation of the flood")
	}
	fill(t, g, 1, "192.0.2.1", "e")
	if n := len(queued(g)); n != maxQueued {
		t.Errorf("another id of the same network: %d wait", n)
	}
	even := newLimiter(2)
	fill(t, even, 1, "192.0.2.1", "a")
	for i := range maxQueued {
		fill(t, even, 1, fmt.Sprintf("10.0.%d.1", i), "a")
	}
	if even.enqueue(origin{networkOf("198.51.100.1"), "a"}, 1) != nil {
		t.Error("a newcomer took the place of one that has no more than it")
	}
}

// A flood from many networks of one party, each with one computation, takes neither the place nor
// the turn of an owner in another site.
func TestAFloodFromManyNetworksOfOneSite(t *testing.T) {
	for _, tt := range []struct{ flood, owner string }{
		{"2001:db8:1:%x::1", "2001:db8:2:1::1"},
		{"192.0.2.%d", "198.51.100.1"},
		{"2001:db8:1:%x::1", "198.51.100.1"},
	} {
		g := newLimiter(2)
		running := fill(t, g, 1, fmt.Sprintf(tt.flood, 0), "alice")[0]
		for i := range maxQueued {
			fill(t, g, 1, fmt.Sprintf(tt.flood, i%256), "alice")
		}
		if len(queued(g)) != maxQueued {
			t.Fatal("the queue is not full")
		}
		last := queued(g)[maxQueued-1]
		owner := fill(t, g, 1, tt.owner, "alice")[0]
		if len(last.ready) != 1 || <-last.ready {
			t.Errorf("%s: the owner did not take the place of the last computation of the flood", tt.owner)
		}
		if g.enqueue(origin{networkOf(fmt.Sprintf(tt.flood, 7)), "alice"}, 1) != nil {
			t.Errorf("%s: another computation of the flood has a place in the full queue", tt.owner)
		}
		g.release(running)
		if len(owner.ready) != 1 || !<-owner.ready {
			t.Errorf("%s: the owner does not have the next turn", tt.owner)
		}
	}
}

func TestFullQueueIsBusyAndNotRemembered(t *testing.T) {
	text, entry := makeKey(t, "ci", cheap)
	v := NewVerifier(newClock().now)
	k := keyring(t, v, entry)
	list := fill(t, v.limiter, 1+maxQueuedPerOrigin, "192.0.2.1", "ci")
	if _, err := k.Verify(context.Background(), text, "192.0.2.1"); err != ErrBusy {
		t.Fatalf("got %v", err)
	}
	for _, w := range list {
		<-w.ready
		v.limiter.release(w)
	}
	if n := len(v.limiter.sites) + len(v.limiter.networks) + len(v.limiter.origins); n != 0 {
		t.Errorf("%d shares are left of an empty queue", n)
	}
	if _, err := k.Verify(context.Background(), text, "192.0.2.1"); err != nil {
		t.Errorf("after the queue emptied: %v", err)
	}
	if v.Stats().Busy != 1 {
		t.Errorf("%+v", v.Stats())
	}
}

func TestAtMostHalfTheProcessorsCompute(t *testing.T) {
	for _, row := range []struct{ processors, cores int }{{1, 1}, {2, 1}, {3, 1}, {4, 2}, {64, 32}} {
		if g := newLimiter(row.processors); g.cores != int64(row.cores) {
			t.Errorf("%d processors: %d compute, want %d", row.processors, g.cores, row.cores)
		}
	}
}
