package session

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// clock is a time that a test moves.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

func task(id string) Key { return KeyOf("key", "", "alice", id) }

func newMemory(max int, ttl time.Duration) (*TaskMemory, *clock) {
	c := &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	return NewTaskMemory(max, ttl, c.now), c
}

// want checks the upstream of a task in the map; "" means none.
func want(t *testing.T, m *TaskMemory, key Key, upstream string) {
	t.Helper()
	got, ok := m.Origin(t.Context(), key)
	if got.Upstream != upstream || ok != (upstream != "") {
		t.Errorf("got %q, %v, want %q", got, ok, upstream)
	}
}

func TestTaskIsFoundWhereItWasLearned(t *testing.T) {
	m, _ := newMemory(10, time.Hour)
	m.Learn(t.Context(), task("1"), Origin{Upstream: "a"})
	m.Learn(t.Context(), task("2"), Origin{Upstream: "b"})
	want(t, m, task("1"), "a")
	want(t, m, task("2"), "b")
	want(t, m, task("3"), "")
}

func TestEntryExpiresAfterItWasLearned(t *testing.T) {
	m, c := newMemory(10, time.Hour)
	m.Learn(t.Context(), task("1"), Origin{Upstream: "a"})
	c.advance(time.Hour - time.Nanosecond)
	want(t, m, task("1"), "a") // a read does not extend its life
	c.advance(time.Nanosecond)
	want(t, m, task("1"), "")
	if m.Len() != 0 {
		t.Error("an expired entry is still in the map after a read")
	}
}

func TestOverwritingRefreshesTheExpiry(t *testing.T) {
	m, c := newMemory(10, time.Hour)
	m.Learn(t.Context(), task("1"), Origin{Upstream: "a"})
	c.advance(59 * time.Minute)
	m.Learn(t.Context(), task("1"), Origin{Upstream: "b"})
	c.advance(59 * time.Minute)
	want(t, m, task("1"), "b")
	if m.Len() != 1 {
		t.Errorf("%d entries for one task", m.Len())
	}
}

func TestLeastRecentlyUsedMakesRoom(t *testing.T) {
	m, _ := newMemory(3, time.Hour)
	for _, id := range []string{"1", "2", "3"} {
		m.Learn(t.Context(), task(id), Origin{Upstream: "a"})
	}
	want(t, m, task("1"), "a") // now the second is the least recently used
	m.Learn(t.Context(), task("4"), Origin{Upstream: "a"})
	want(t, m, task("2"), "")
	for _, id := range []string{"1", "3", "4"} {
		want(t, m, task(id), "a")
	}
}

func TestForgottenTaskIsUnknown(t *testing.T) {
	m, _ := newMemory(10, time.Hour)
	m.Learn(t.Context(), task("1"), Origin{Upstream: "a"})
	m.Learn(t.Context(), task("2"), Origin{Upstream: "a"})
	m.Forget(t.Context(), task("1"))
	m.Forget(t.Context(), task("3"))
	want(t, m, task("1"), "")
	want(t, m, task("2"), "a")
}

func TestMapIsBounded(t *testing.T) {
	for _, max := range []int{0, 1, 100} {
		m, _ := newMemory(max, time.Hour)
		for i := range 1000 {
			m.Learn(t.Context(), task(fmt.Sprint(i)), Origin{Upstream: "a"})
		}
		if n := m.Len(); n != max && (max != 0 || n != 1) {
			t.Errorf("%d entries, want at most %d", n, max)
		}
	}
}

// A task belongs to one typed principal: it is not found for another principal, for a key named
// like the subject, nor for the same subject of another issuer.
func TestKeyIsOfOnePrincipal(t *testing.T) {
	keys := map[Key]string{}
	for _, parts := range [][4]string{
		{"key", "", "alice", "t"}, {"key", "", "bob", "t"}, {"oauth", "", "alice", "t"}, {"oauth", "https://i", "alice", "t"},
		{"oauth", "https://j", "alice", "t"}, {"key", "", "alic", "et"}, {"key", "", "alicet", ""}, {"key", "", "alice", "u"}, {"keya", "", "lice", "t"},
	} {
		key := KeyOf(parts[0], parts[1], parts[2], parts[3])
		if twin, ok := keys[key]; ok {
			t.Errorf("%v has the key of %s", parts, twin)
		}
		keys[key] = fmt.Sprint(parts)
	}
}

func TestMemoryIsSafeForConcurrentUse(t *testing.T) {
	m := NewTaskMemory(50, time.Hour, time.Now)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				key := task(fmt.Sprint(i % 100))
				m.Learn(t.Context(), key, Origin{Upstream: "a"})
				if o, ok := m.Origin(t.Context(), key); ok && o.Upstream != "a" {
					t.Errorf("got %q", o)
				}
			}
		})
	}
	wg.Wait()
	if n := m.Len(); n > 50 {
		t.Errorf("%d entries, want at most 50", n)
	}
}
