package multiplex

import (
	"slices"
	"testing"
	"time"

	"svc/gateway/session"
)

// The labels of a call are pending until its answer, or for an hour after it was left. When too many calls
// were left, the next one is not remembered, until those have ended.
func TestPendingLabels(t *testing.T) {
	s := newSet(t)
	now := time.Now()
	s.pending.now = func() time.Time { return now }
	id := session.NewID()
	want := func(when string, labels ...string) {
		t.Helper()
		got := s.Pending(id, "main")
		if slices.Sort(got); !slices.Equal(got, labels) {
			t.Errorf("%s: %q, want %q", when, got, labels)
		}
	}
	answered, left := s.Pend(id, "main", []string{"a", "b"}), s.Pend(id, "main", []string{"b"})
	want("in flight", "a", "b")
	answered(true)
	want("one is answered", "b")
	if !left(false) {
		t.Error("a call that was left is not remembered")
	}
	now = now.Add(inFlightTTL - time.Second)
	want("one was left", "b")
	now = now.Add(time.Second)
	want("an hour later")

	for range maxLeft {
		s.Pend(session.NewID(), "main", []string{"a"})(false)
	}
	if end := s.Pend(id, "main", []string{"a"}); end(false) {
		t.Error("a call is remembered beyond the bound")
	}
	want("without room")
	now = now.Add(inFlightTTL)
	if end := s.Pend(id, "main", []string{"a"}); !end(false) {
		t.Error("a call is not remembered when there is room")
	}
	want("with room", "a")
	if n := len(s.pending.labels); n != 1 {
		t.Errorf("%d places are remembered", n)
	}
}

// The calls of a session that was opened before the process are not known for an hour.
func TestForgotten(t *testing.T) {
	s := newSet(t)
	began := s.pending.began
	for _, tt := range []struct {
		name        string
		opened, now time.Duration // since the process began
		want        bool
	}{
		{"before the process", -time.Second, 0, true},
		{"in the process", time.Second, 2 * time.Second, false},
		{"by a clock that was set back", time.Minute, 2 * time.Second, true},
		{"long ago", -time.Second, inFlightTTL, false},
	} {
		s.pending.now = func() time.Time { return began.Add(tt.now) }
		if got := s.Forgotten(&session.Handle{Opened: began.Add(tt.opened).UnixNano()}); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
