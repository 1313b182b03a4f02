package affinity

import (
	"context"
	"encoding/base64"
	"time"
)

// Store is what the replicas of a gateway share.
type Store interface {
	// Keep keeps a text under a name for ttl, in the place of what was there.
	Put(ctx context.Context, name, text string, ttl time.Duration) error
	// Kept returns it; ok is false when there is none.
	Get(ctx context.Context, name string) (text string, ok bool, err error)
}

// Shared is the map of a gateway with several replicas: what one of them learns
// all of them find. Each keeps its own bounded map too, for the time that the
// store fails or has forgotten; in the store an entry lives as long, and how many
// there are is bounded by the store's own memory limit. It is safe for concurrent
// use.
type Shared struct {
	local *Memory
	store Store
	ttl   time.Duration
}

// NewShared returns a map over a store, with a map of this process behind it.
func NewShared(local *Memory, store Store, ttl time.Duration) *Shared {
	return &Shared{local: local, store: store, ttl: ttl}
}

// Learn remembers the upstream of a task here and in the store. The store tells
// of its own failures.
func (s *Shared) Learn(ctx context.Context, key Key, upstream string) {
	s.local.Learn(ctx, key, upstream)
	_ = s.store.Put(ctx, name(key), upstream, s.ttl)
}

// Upstream returns the upstream of a task: what the store says, because another
// replica may have learned it since, else what this one learned.
func (s *Shared) Upstream(ctx context.Context, key Key) (upstream string, ok bool) {
	if upstream, ok, err := s.store.Get(ctx, name(key)); err == nil && ok {
		return upstream, true
	}
	return s.local.Upstream(ctx, key)
}

// name is the name of an entry in the store.
func name(key Key) string { return "task:" + base64.RawURLEncoding.EncodeToString(key[:]) }
