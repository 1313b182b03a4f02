package session

import (
	"context"
	"errors"
	"testing"
	"time"
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
		if got, ok := s.Upstream(t.Context(), key); got != upstream || ok != (upstream != "") {
			t.Errorf("got %q, %v, want %q", got, ok, upstream)
		}
	}
	one.Learn(t.Context(), task("1"), "a")
	want(other, task("1"), "a")
	want(other, task("2"), "")
	other.Learn(t.Context(), task("1"), "b") // the newest upstream is the one at every replica
	want(one, task("1"), "b")
	if store.ttl != time.Hour || len(store.texts) != 1 {
		t.Errorf("the store has %v for %s", store.texts, store.ttl)
	}
	store.err = errors.New("down")
	want(one, task("1"), "a") // the entry that it stored itself
	one.Learn(t.Context(), task("3"), "a")
	want(one, task("3"), "a")
	want(other, task("3"), "")
	store.err = nil
	clear(store.texts)
	want(other, task("1"), "b")
}
