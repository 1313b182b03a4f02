package store

import (
	"maps"
	"slices"
	"sync"
)

// Feeds wakes the streams of an engine that polls for the commits of other processes. Its
// keys are tenants; the zero value is ready for use. It is shared by the engines.
type Feeds[K comparable] struct {
	mu    sync.Mutex
	feeds map[K]*feed
}

type feed struct {
	followers int
	newest    [2]int64      // the newest known commits, as the engine describes them
	changed   chan struct{} // closed and replaced with every newer commit
}

// Follow starts a stream of a tenant. It returns a function that returns a channel that the
// next commit closes, and one that ends the stream.
func (s *Feeds[K]) Follow(tenant K) (changed func() <-chan struct{}, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[tenant]
	if f == nil {
		if s.feeds == nil {
			s.feeds = map[K]*feed{}
		}
		f = &feed{changed: make(chan struct{})}
		s.feeds[tenant] = f
	}
	f.followers++
	changed = func() <-chan struct{} {
		s.mu.Lock()
		defer s.mu.Unlock()
		return f.changed
	}
	return changed, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.followers--; f.followers == 0 {
			delete(s.feeds, tenant)
		}
	})
}

// Followed returns the tenants that are streamed.
func (s *Feeds[K]) Followed() []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.feeds))
}

// Committed wakes the streams of a tenant unless these commits are the newest known ones.
func (s *Feeds[K]) Committed(tenant K, newest [2]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.feeds[tenant]; f != nil && f.newest != newest {
		f.newest = newest
		f.wake()
	}
}

// Wake wakes the streams of a tenant.
func (s *Feeds[K]) Wake(tenant K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.feeds[tenant]; f != nil {
		f.wake()
	}
}

func (f *feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}
