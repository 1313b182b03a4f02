package auth

import (
	"container/list"
	"sync"
	"time"
)

// lru is a cache with an expiry time for each entry, bounded by the sum of the costs of its
// entries; when it is full, the least recently used ones are evicted. It needs no goroutine: expired entries are removed by
// get and by eviction. It is safe for concurrent use.
type lru[K comparable, V any] struct {
	max int

	mu    sync.Mutex
	cost  int
	order *list.List // of *lruEntry[K, V], most recently used first
	byKey map[K]*list.Element
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
	until time.Time
	cost  int
}

func newLRU[K comparable, V any](max int) *lru[K, V] {
	return &lru[K, V]{max: max, order: list.New(), byKey: make(map[K]*list.Element)}
}

// get returns the value of key, if it has not expired at now.
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

// put stores value until a time and replaces the old value, at a cost of 1.
func (l *lru[K, V]) put(key K, value V, until time.Time) { l.putCost(key, value, until, 1) }

// putCost is put with another cost.
func (l *lru[K, V]) putCost(key K, value V, until time.Time, cost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.byKey[key]; at != nil {
		l.remove(at)
	}
	for l.cost+cost > l.max && l.order.Len() > 0 {
		l.remove(l.order.Back())
	}
	l.byKey[key] = l.order.PushFront(&lruEntry[K, V]{key: key, value: value, until: until, cost: cost})
	l.cost += cost
}

// drop removes key.
func (l *lru[K, V]) drop(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.byKey[key]; at != nil {
		l.remove(at)
	}
}

// remove removes an entry. The caller holds mu.
func (l *lru[K, V]) remove(at *list.Element) {
	e, _ := l.order.Remove(at).(*lruEntry[K, V])
	delete(l.byKey, e.key)
	l.cost -= e.cost
}
