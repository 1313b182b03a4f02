package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"svc/gateway/auth"
	"svc/gateway/mcp"
)

// affinityKept is a store in memory; err makes it fail.
type affinityKept struct {
	texts map[string]string
	ttl   time.Duration
	err   error
}

func (k *affinityKept) Put(_ context.Context, name, text string, ttl time.Duration) error {
	if k.err == nil {
		k.texts[name], k.ttl = text, ttl
	}
	return k.err
}

func (k *affinityKept) Get(_ context.Context, name string) (string, bool, error) {
	text, ok := k.texts[name]
	return text, ok && k.err == nil, k.err
}

func TestReplicasShareWhatTheyLearn(t *testing.T) {
	store := &affinityKept{texts: map[string]string{}}
	replica := func() *SharedTasks {
		m, _ := newMemory(10, time.Hour)
		return NewSharedTasks(m, store, time.Hour)
	}
	one, other := replica(), replica()
	want := func(s *SharedTasks, key Key, upstream string) {
		t.Helper()
		if got, ok := s.Origin(t.Context(), key); got.Upstream != upstream || ok != (upstream != "") {
			t.Errorf("got %q, %v, want %q", got, ok, upstream)
		}
	}
	one.Learn(t.Context(), task("1"), Origin{Upstream: "a"})
	want(other, task("1"), "a")
	want(other, task("2"), "")
	other.Learn(t.Context(), task("1"), Origin{Upstream: "b"}) // the newest upstream is the one at every replica
	want(one, task("1"), "b")
	if store.ttl != time.Hour || len(store.texts) != 1 {
		t.Errorf("the store has %v for %s", store.texts, store.ttl)
	}
	store.err = errors.New("down")
	want(one, task("1"), "a") // the entry that it stored itself
	one.Learn(t.Context(), task("3"), Origin{Upstream: "a"})
	want(one, task("3"), "a")
	want(other, task("3"), "")
	store.err = nil
	clear(store.texts)
	want(other, task("1"), "b")
}

// The tool that made a task is stored with it, here and in the store; a value without one, and a task
// that nobody has stored, have none.
func TestATaskRemembersItsTool(t *testing.T) {
	store := &affinityKept{texts: map[string]string{}}
	alice := &auth.Principal{Kind: auth.KindKey, Value: "alice"}
	replica := func() *Tasks {
		m, _ := newMemory(10, time.Hour)
		return &Tasks{Map: NewSharedTasks(m, store, time.Hour)}
	}
	one, other := replica(), replica()
	one.Learn(t.Context(), alice, "t1", "mail", "mail_read")
	one.Learn(t.Context(), alice, "t2", "mail", "")
	store.texts[taskName(taskKey(alice, "t3"))] = "files" // of a gateway that did not remember tools
	for handle, want := range map[string]Origin{
		"t1": {Upstream: "mail", Method: mcp.MethodToolsCall, Tool: "mail_read"}, "t2": {Upstream: "mail"}, "t3": {Upstream: "files"}, "t4": {}, "": {},
	} {
		for name, tasks := range map[string]*Tasks{"the replica that stored it": one, "another": other} {
			if got := tasks.At(t.Context(), alice, handle); got != want {
				t.Errorf("%s at %s: %+v, want %+v", handle, name, got, want)
			}
		}
	}
}
