package session

import (
	"context"
	"encoding/base64"
	"time"
)

// TaskStore is shared by the replicas of a gateway.
type TaskStore interface {
	// Put stores a text under a name for ttl, in place of the previous text.
	Put(ctx context.Context, name, text string, ttl time.Duration) error
	// Get returns the text; ok is false when there is none.
	Get(ctx context.Context, name string) (text string, ok bool, err error)
}

// SharedTasks is the map of a gateway with several replicas: every replica finds the entries of all.
// Each has a bounded map of its own too, for the time that the store fails or has lost entries.
// In the store an entry lives as long, and the number of entries is bounded by the store's own
// memory limit. SharedTasks is safe for concurrent use.
type SharedTasks struct {
	local *TaskMemory
	store TaskStore
	ttl   time.Duration
}

// NewSharedTasks returns a map in a store, with a local map as fallback.
func NewSharedTasks(local *TaskMemory, store TaskStore, ttl time.Duration) *SharedTasks {
	return &SharedTasks{local: local, store: store, ttl: ttl}
}

// Learn stores the origin of a task here and in the store. The store logs its own failures.
func (s *SharedTasks) Learn(ctx context.Context, key Key, o Origin) {
	s.local.Learn(ctx, key, o)
	_ = s.store.Put(ctx, taskName(key), o.text(), s.ttl)
}

// Origin returns the origin of a task: that in the store, because another replica may have stored a
// newer one, or else the local one.
func (s *SharedTasks) Origin(ctx context.Context, key Key) (o Origin, ok bool) {
	if text, ok, err := s.store.Get(ctx, taskName(key)); err == nil && ok {
		return originOf(text), true
	}
	return s.local.Origin(ctx, key)
}

// taskName returns the name of an entry in the store.
func taskName(key Key) string { return "task:" + base64.RawURLEncoding.EncodeToString(key[:]) }
