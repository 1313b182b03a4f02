package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

func opens(id string) OpenFunc {
	return func(context.Context) (Opened, error) { return Opened{ID: id}, nil }
}

func TestPairsOpenOnceForAllWhoWait(t *testing.T) {
	m := NewMemory(10, nil)
	id := NewID()
	var calls atomic.Int32
	release := make(chan struct{})
	open := func(context.Context) (Opened, error) {
		calls.Add(1)
		<-release
		return Opened{ID: "up"}, nil
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if o, err := m.Session(t.Context(), id, "b", open); err != nil || o.ID != "up" {
				t.Errorf("got %v, %v", o, err)
			}
		})
	}
	close(release)
	wg.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("opened %d times, want once", n)
	}
}

func TestPairsDoNotKeepAFailedOpen(t *testing.T) {
	m := NewMemory(10, nil)
	id := NewID()
	boom := errors.New("boom")
	if _, err := m.Session(t.Context(), id, "b", func(context.Context) (Opened, error) { return Opened{}, boom }); !errors.Is(err, boom) {
		t.Fatalf("got %v, want boom", err)
	}
	if o, err := m.Session(t.Context(), id, "b", opens("up")); err != nil || o.ID != "up" {
		t.Errorf("got %v, %v after a failed open", o, err)
	}
}

func TestForgetSparesANewerSession(t *testing.T) {
	m := NewMemory(10, nil)
	id := NewID()
	old, _ := m.Session(t.Context(), id, "b", opens("old"))
	m.Forget(t.Context(), id, "b", old)
	if o, _ := m.Session(t.Context(), id, "b", opens("new")); o.ID != "new" {
		t.Fatalf("got %q, want the session to be opened again", o.ID)
	}
	m.Forget(t.Context(), id, "b", old)
	if got := m.All(t.Context(), id)["b"].ID; got != "new" {
		t.Errorf("a late complaint about the old session left %q", got)
	}
}

func TestEndReturnsWhatWasOpen(t *testing.T) {
	m := NewMemory(10, nil)
	id := NewID()
	m.Session(t.Context(), id, "a", opens("1"))
	m.Session(t.Context(), id, "b", opens("2"))
	m.SetParams(t.Context(), id, []byte(`{}`))
	if got := m.End(t.Context(), id); len(got) != 2 || got["a"].ID != "1" || got["b"].ID != "2" {
		t.Errorf("got %v", got)
	}
	if m.All(t.Context(), id) != nil || params(t, m, id) != nil {
		t.Error("an ended session is still known")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := NewMemory(3, nil)
	first := NewID()
	m.Session(t.Context(), first, "a", opens("first"))
	for i := range 3 {
		m.Session(t.Context(), NewID(), "a", opens(fmt.Sprint(i)))
	}
	if m.All(t.Context(), first) != nil {
		t.Error("the least recently used session was kept")
	}
	if n := m.order.Len(); n != 3 {
		t.Errorf("%d sessions kept, want 3", n)
	}
	id := NewID()
	m.SetParams(t.Context(), id, make([]byte, maxParams+1))
	if params(t, m, id) != nil {
		t.Error("oversize parameters were kept")
	}
}

// The sessions behind one that had to make room are handed out, to be closed at
// their upstreams.
func TestEvictedPairsAreHandedOut(t *testing.T) {
	var evicted []map[string]Opened
	m := NewMemory(2, func(open map[string]Opened) { evicted = append(evicted, open) })
	first := NewID()
	m.Session(t.Context(), first, "a", opens("1"))
	m.Session(t.Context(), first, "b", opens("2"))
	m.SetParams(t.Context(), NewID(), []byte(`{}`)) // nothing is open for this one
	m.SetParams(t.Context(), NewID(), []byte(`{}`))
	if len(evicted) != 1 || len(evicted[0]) != 2 || evicted[0]["a"].ID != "1" || evicted[0]["b"].ID != "2" {
		t.Fatalf("got %v", evicted)
	}
	m.SetParams(t.Context(), NewID(), []byte(`{}`))
	if len(evicted) != 1 {
		t.Errorf("a session without pairs handed out %v", evicted[1:])
	}
}

// A session that makes room while one of its pairs is being opened keeps it.
func TestEvictionWhileAPairIsOpened(t *testing.T) {
	m := NewMemory(1, nil)
	id := NewID()
	_, err := m.Session(t.Context(), id, "a", func(context.Context) (Opened, error) {
		m.SetParams(t.Context(), NewID(), []byte(`{}`))
		return Opened{ID: "1"}, nil
	})
	if err != nil || m.All(t.Context(), id)["a"].ID != "1" {
		t.Errorf("got %v, %v", m.All(t.Context(), id), err)
	}
}

func TestLevelIsKeptUntilTheEnd(t *testing.T) {
	m := NewMemory(10, nil)
	id := NewID()
	m.SetLevel(t.Context(), id, []byte(`{"level":"info"}`))
	m.SetLevel(t.Context(), id, []byte(`{"level":"debug"}`))
	m.SetLevel(t.Context(), id, make([]byte, maxLevel+1)) // too long to keep
	if got := string(m.Level(t.Context(), id)); got != `{"level":"debug"}` {
		t.Errorf("got %q", got)
	}
	m.End(t.Context(), id)
	m.SetLevel(t.Context(), id, []byte(`{}`))
	if m.Level(t.Context(), id) != nil || m.Level(t.Context(), NewID()) != nil {
		t.Error("an ended or unknown session has a level")
	}
}

// params returns the parameters that are kept.
func params(t *testing.T, p Pairs, id ID) []byte {
	t.Helper()
	params, err := p.Params(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return params
}
