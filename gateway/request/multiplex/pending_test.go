package multiplex

import (
	"slices"
	"strings"
	"testing"
	"time"

	"svc/gateway/session"
)

// A call is pending until its answer, or for an hour after it was left. When too many calls were left, the
// next one is not remembered, until those have ended.
func TestPending(t *testing.T) {
	s := newSet(t)
	now := time.Now()
	s.pending.now = func() time.Time { return now }
	id, a, b := session.NewID(), session.Origin{Upstream: "main", Tool: "a"}, session.Origin{Upstream: "main", Tool: "b"}
	want := func(when, tools string) {
		t.Helper()
		var got []string
		for _, o := range s.Pending(id, "main") {
			got = append(got, o.Tool)
		}
		if slices.Sort(got); strings.Join(got, " ") != tools {
			t.Errorf("%s: %q, want %q", when, got, tools)
		}
	}
	answered, same, left := s.Pend(id, a), s.Pend(id, a), s.Pend(id, b)
	want("in flight", "a b")
	answered(true)
	want("one of two is answered", "a b")
	same(true)
	want("both are answered", "b")
	if !left(false) {
		t.Error("a call that was left is not remembered")
	}
	now = now.Add(inFlightTTL - time.Second)
	want("one was left", "b")
	now = now.Add(time.Second)
	want("an hour later", "")

	for range maxPending {
		s.Pend(session.NewID(), a)(false)
	}
	if end := s.Pend(id, a); end(false) {
		t.Error("a call is remembered beyond the bound")
	}
	want("without room", "")
	now = now.Add(inFlightTTL)
	if end := s.Pend(id, a); !end(false) {
		t.Error("a call is not remembered when there is room")
	}
	want("with room", "a")
	if s.pending.size != 1 || len(s.pending.calls) != 1 {
		t.Errorf("%d calls in %d places are remembered", s.pending.size, len(s.pending.calls))
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
