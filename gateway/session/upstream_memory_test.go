package session

import (
	"context"
	"fmt"
	"testing"
)

func opens(id string) OpenFunc {
	return func(context.Context) (UpstreamSession, error) { return UpstreamSession{ID: id}, nil }
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

// The upstream sessions of an evicted session are returned, to be closed at
// their upstreams.
func TestEvictedPairsAreHandedOut(t *testing.T) {
	var evicted []map[string]UpstreamSession
	m := NewMemory(2, func(open map[string]UpstreamSession) { evicted = append(evicted, open) })
	first := NewID()
	m.Session(t.Context(), first, "a", opens("1"))
	m.Session(t.Context(), first, "b", opens("2"))
	m.SetParams(t.Context(), NewID(), []byte(`{}`)) // this session has no upstream sessions
	m.SetParams(t.Context(), NewID(), []byte(`{}`))
	if len(evicted) != 1 || len(evicted[0]) != 2 || evicted[0]["a"].ID != "1" || evicted[0]["b"].ID != "2" {
		t.Fatalf("got %v", evicted)
	}
	m.SetParams(t.Context(), NewID(), []byte(`{}`))
	if len(evicted) != 1 {
		t.Errorf("evicting a session without upstream sessions returned %v", evicted[1:])
	}
}

// A session that is evicted while one of its upstream sessions is being opened
// keeps it.
func TestEvictionWhileAPairIsOpened(t *testing.T) {
	m := NewMemory(1, nil)
	id := NewID()
	_, err := m.Session(t.Context(), id, "a", func(context.Context) (UpstreamSession, error) {
		m.SetParams(t.Context(), NewID(), []byte(`{}`))
		return UpstreamSession{ID: "1"}, nil
	})
	if err != nil || m.All(t.Context(), id)["a"].ID != "1" {
		t.Errorf("got %v, %v", m.All(t.Context(), id), err)
	}
}

// params returns the stored parameters.
func params(t *testing.T, p sessionKept, id ID) []byte {
	t.Helper()
	params, err := p.Params(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return params
}
