package session

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// All implementations of State meet the requirements of the interfaces, including
// the durable one.
func TestStateInMemory(t *testing.T) {
	testState(t, func(t *testing.T) sessionKept { return NewMemory(100, nil) })
}

func TestStateInMemoryWithAFile(t *testing.T) {
	testState(t, func(t *testing.T) sessionKept { return openDurable(t, filepath.Join(t.TempDir(), "ended")) })
}

func openDurable(t *testing.T, path string) *Durable {
	t.Helper()
	d, err := OpenDurable(path, 100_000, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// sessionKept is the interface of an implementation.
type sessionKept interface {
	UpstreamSessions
	ClientSettings
}

// testState checks the requirements of every implementation. made returns one for
// at least a hundred sessions.
func testState(t *testing.T, made func(t *testing.T) sessionKept) {
	for name, test := range map[string]func(*testing.T, sessionKept){
		"an upstream session is opened once for all waiting callers": testOpenOnce,
		"a failed open is not stored":                                testFailedOpen,
		"an open that panics is no longer running":                   testPanic,
		"a waiter leaves when its request ends":                      testWaiterLeaves,
		"a late error does not affect a newer session":               testForget,
		"the end returns what was open":                              testEnd,
		"an ended session stays ended":                               testStaysEnded,
		"the level of logs is kept until the end":                    testLevel,
		"oversized settings are not stored":                          testTooLong,
		"sessions share nothing":                                     testApart,
		"an upstream without a session id is a session":              testEmpty,
	} {
		t.Run(name, func(t *testing.T) { test(t, made(t)) })
	}
}

func testOpenOnce(t *testing.T, p sessionKept) {
	id := NewID()
	var calls atomic.Int32
	release := make(chan struct{})
	open := func(context.Context) (UpstreamSession, error) {
		calls.Add(1)
		<-release
		return UpstreamSession{ID: "up", Version: "v"}, nil
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if o, err := p.Session(t.Context(), id, "b", open); err != nil || o != (UpstreamSession{ID: "up", Version: "v"}) {
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

func testFailedOpen(t *testing.T, p sessionKept) {
	id := NewID()
	boom := errors.New("boom")
	if _, err := p.Session(t.Context(), id, "b", func(context.Context) (UpstreamSession, error) { return UpstreamSession{}, boom }); !errors.Is(err, boom) {
		t.Fatalf("got %v, want boom", err)
	}
	if o, err := p.Session(t.Context(), id, "b", opens("up")); err != nil || o.ID != "up" {
		t.Errorf("got %v, %v after a failed open", o, err)
	}
}

func testPanic(t *testing.T, p sessionKept) {
	id := NewID()
	func() {
		defer func() { _ = recover() }()
		p.Session(t.Context(), id, "b", func(context.Context) (UpstreamSession, error) { panic("boom") })
	}()
	if o, err := p.Session(t.Context(), id, "b", opens("up")); err != nil || o.ID != "up" {
		t.Errorf("got %v, %v", o, err)
	}
}

func testWaiterLeaves(t *testing.T, p sessionKept) {
	id := NewID()
	opening, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		p.Session(t.Context(), id, "b", func(context.Context) (UpstreamSession, error) {
			close(opening)
			<-release
			return UpstreamSession{ID: "up"}, nil
		})
	})
	<-opening
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Session(ctx, id, "b", opens("other")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
	wg.Wait()
	if got := p.All(t.Context(), id)["b"].ID; got != "up" {
		t.Errorf("got %q", got)
	}
}

func testForget(t *testing.T, p sessionKept) {
	id := NewID()
	old, _ := p.Session(t.Context(), id, "b", opens("old"))
	p.Forget(t.Context(), id, "b", old)
	if o, _ := p.Session(t.Context(), id, "b", opens("new")); o.ID != "new" {
		t.Fatalf("got %q, want the session to be opened again", o.ID)
	}
	p.Forget(t.Context(), id, "b", old)
	if got := p.All(t.Context(), id)["b"].ID; got != "new" {
		t.Errorf("a late complaint about the old session left %q", got)
	}
	p.Forget(t.Context(), NewID(), "b", old)
}

func testEnd(t *testing.T, p sessionKept) {
	id := NewID()
	p.Session(t.Context(), id, "a", opens("1"))
	p.Session(t.Context(), id, "b", opens("2"))
	p.SetParams(t.Context(), id, []byte(`{}`))
	want := map[string]UpstreamSession{"a": {ID: "1"}, "b": {ID: "2"}}
	if got := p.All(t.Context(), id); !maps.Equal(got, want) {
		t.Errorf("open is %v", got)
	}
	if got := p.End(t.Context(), id); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := p.End(t.Context(), id); len(got) != 0 {
		t.Errorf("the second end returned %v", got)
	}
	if len(p.All(t.Context(), id)) != 0 || params(t, p, id) != nil {
		t.Error("an ended session is still known")
	}
}

func testStaysEnded(t *testing.T, p sessionKept) {
	id := NewID()
	opened, err := p.Session(t.Context(), id, "b", func(context.Context) (UpstreamSession, error) {
		p.End(t.Context(), id)
		return UpstreamSession{ID: "late"}, nil
	})
	if !errors.Is(err, ErrUnknown) || opened.ID != "late" {
		t.Errorf("got %v, %v, want what was opened, to be closed", opened, err)
	}
	if !p.Ended(t.Context(), id) || len(p.All(t.Context(), id)) != 0 {
		t.Error("the session is not ended")
	}
	p.SetParams(t.Context(), id, []byte(`{}`))
	p.SetLevel(t.Context(), id, []byte(`{}`))
	if params(t, p, id) != nil || p.Level(t.Context(), id) != nil {
		t.Error("an ended session took parameters")
	}
	if _, err := p.Session(t.Context(), id, "b", opens("again")); !errors.Is(err, ErrUnknown) {
		t.Errorf("an ended session was opened again: %v", err)
	}
	if p.Ended(t.Context(), NewID()) {
		t.Error("a session that never was has ended")
	}
}

func testLevel(t *testing.T, p sessionKept) {
	id := NewID()
	p.SetLevel(t.Context(), id, []byte(`{"level":"info"}`))
	p.SetLevel(t.Context(), id, []byte(`{"level":"debug"}`))
	if got := string(p.Level(t.Context(), id)); got != `{"level":"debug"}` {
		t.Errorf("got %q", got)
	}
	p.End(t.Context(), id)
	if p.Level(t.Context(), id) != nil || p.Level(t.Context(), NewID()) != nil {
		t.Error("an ended or unknown session has a level")
	}
}

func testTooLong(t *testing.T, p sessionKept) {
	id := NewID()
	p.SetParams(t.Context(), id, make([]byte, maxParams+1))
	p.SetLevel(t.Context(), id, make([]byte, maxLevel+1))
	if params(t, p, id) != nil || p.Level(t.Context(), id) != nil {
		t.Error("oversize parameters were kept")
	}
	most := strings.Repeat("x", maxParams)
	p.SetParams(t.Context(), id, []byte(most))
	if got := string(params(t, p, id)); got != most {
		t.Errorf("%d bytes were kept of %d", len(got), maxParams)
	}
}

func testApart(t *testing.T, p sessionKept) {
	one, other := NewID(), NewID()
	p.SetParams(t.Context(), one, []byte(`1`))
	p.SetLevel(t.Context(), one, []byte(`1`))
	p.Session(t.Context(), one, "a", opens("1"))
	p.Session(t.Context(), other, "a", opens("2"))
	if params(t, p, other) != nil || p.Level(t.Context(), other) != nil || p.All(t.Context(), other)["a"].ID != "2" {
		t.Error("one session has what is another's")
	}
	p.End(t.Context(), one)
	if p.Ended(t.Context(), other) || p.All(t.Context(), other)["a"].ID != "2" {
		t.Error("the end of one session ended another")
	}
}

func testEmpty(t *testing.T, p sessionKept) {
	id := NewID()
	for range 2 {
		if o, err := p.Session(t.Context(), id, "a", opens("")); o != (UpstreamSession{}) || err != nil {
			t.Errorf("got %v, %v", o, err)
		}
	}
	if _, ok := p.All(t.Context(), id)["a"]; !ok {
		t.Error("it was not kept")
	}
}
