package session

import (
	"context"
	"errors"
	"testing"
)

// A session that ended opens no further sessions at upstreams, and one that was
// being opened meanwhile is handed to its opener to close.
func TestEndedSessionStaysEnded(t *testing.T) {
	m := NewMemory(10, nil)
	id := NewID()
	opened, err := m.Session(t.Context(), id, "b", func(context.Context) (Opened, error) {
		m.End(t.Context(), id)
		return Opened{ID: "late"}, nil
	})
	if !errors.Is(err, ErrUnknown) || opened.ID != "late" {
		t.Errorf("got %v, %v", opened, err)
	}
	if !m.Ended(t.Context(), id) || m.All(t.Context(), id) != nil {
		t.Error("the session is not ended")
	}
	m.SetParams(t.Context(), id, []byte(`{}`))
	if params(t, m, id) != nil {
		t.Error("an ended session took parameters")
	}
	if _, err := m.Session(t.Context(), id, "b", opens("again")); !errors.Is(err, ErrUnknown) {
		t.Errorf("an ended session was opened again: %v", err)
	}
	if m.Ended(t.Context(), NewID()) {
		t.Error("a session that never was has ended")
	}
}

// An open that panics leaves nobody waiting.
func TestOpenThatPanicsIsNotUnderWay(t *testing.T) {
	m := NewMemory(10, nil)
	id := NewID()
	func() {
		defer func() { _ = recover() }()
		m.Session(t.Context(), id, "b", func(context.Context) (Opened, error) { panic("boom") })
	}()
	if o, err := m.Session(t.Context(), id, "b", opens("up")); err != nil || o.ID != "up" {
		t.Errorf("got %v, %v", o, err)
	}
}
