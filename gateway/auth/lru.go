package auth

import (
	"container/list"
	"sync"
	"time"
)

// lru is a bounded memory whose entries end at a time of their own; when it is
// full the least recently used one goes. It needs no goroutine: what has ended
// goes when it is asked for, or when its place is needed. It is safe for
// concurrent use.
type lru[K comparable, V any] struct {
	max int

	mu    sync.Mutex
	order *list.List // of *lruEntry[K, V], most recently used first
	byKey map[K]*list.Element
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
	until time.Time
}

func newLRU[K comparable, V any](max int) *lru[K, V] {
	return &lru[K, V]{max: max, order: list.New(), byKey: make(map[K]*list.Element)}
}

// get returns what is remembered under key and has not ended at now.
func (l *lru[K, V]) get(key K, now time.Time) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.byKey[key]; at != nil {
		if e, _ := at.Value.(*lruEntry[K, V]); now.Before(e.until) {
			l.order.MoveToFront(at)
			return e.value, true
		}
		l.remove(at)
	}
	var none V
	return none, false
}

// put remembers value until a time, in the place of what was there.
func (l *lru[K, V]) put(key K, value V, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.byKey[key]; at != nil {
		l.remove(at)
	}
	if l.order.Len() >= l.max {
		l.remove(l.order.Back())
	}
	l.byKey[key] = l.order.PushFront(&lruEntry[K, V]{key: key, value: value, until: until})
}

// drop forgets key.
func (l *lru[K, V]) drop(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.byKey[key]; at != nil {
		l.remove(at)
	}
}

// remove takes an entry out. The caller holds mu.
func (l *lru[K, V]) remove(at *list.Element) {
	e, _ := l.order.Remove(at).(*lruEntry[K, V])
	delete(l.byKey, e.key)
}
