package affinity

import (
	"context"
	"encoding/base64"
	"time"
)

// Store is shared by the replicas of a gateway.
type Store interface {
	// Keep stores a text under a name for ttl, in place of the previous text.
	Put(ctx context.Context, name, text string, ttl time.Duration) error
	// Kept returns the text; ok is false when there is none.
	Get(ctx context.Context, name string) (text string, ok bool, err error)
}

// Shared is the map of a gateway with several replicas: every replica finds the entries of all.
// Each has a bounded map of its own too, for the time that the store fails or has lost entries.
// In the store an entry lives as long, and the number of entries is bounded by the store's own
// memory limit. Shared is safe for concurrent use.
type Shared struct {
	local *Memory
	store Store
	ttl   time.Duration
}

// NewShared returns a map in a store, with a local map as fallback.
func NewShared(local *Memory, store Store, ttl time.Duration) *Shared {
	return &Shared{local: local, store: store, ttl: ttl}
}

// Learn stores the upstream of a task here and in the store. The store logs its own failures.
func (s *Shared) Learn(ctx context.Context, key Key, upstream string) {
	s.local.Learn(ctx, key, upstream)
	_ = s.store.Put(ctx, name(key), upstream, s.ttl)
}

// Upstream returns the upstream of a task: that in the store, because another replica may have
// stored a newer one, or else the local one.
func (s *Shared) Upstream(ctx context.Context, key Key) (upstream string, ok bool) {
	if upstream, ok, err := s.store.Get(ctx, name(key)); err == nil && ok {
		return upstream, true
	}
	return s.local.Upstream(ctx, key)
}

// name returns the name of an entry in the store.
func name(key Key) string { return "task:" + base64.RawURLEncoding.EncodeToString(key[:]) }
