package session

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// TaskMemory is a bounded LRU map in this process. An entry expires ttl after it was stored or last
// overwritten; reading makes it recently used and does not extend its life. TaskMemory is safe for
// concurrent use, and has no goroutine: an expired entry is removed when it is read, or evicted
// like any other.
type TaskMemory struct {
	max int
	ttl time.Duration
	now func() time.Time

	mu      sync.Mutex // guards the fields below
	entries map[Key]*list.Element
	order   *list.List // of *taskEntry, most recently used first
}

type taskEntry struct {
	key     Key
	origin  Origin
	expires time.Time
}

// NewTaskMemory returns an empty map of at most max entries, at least one, that expire after ttl. now
// returns the time.
func NewTaskMemory(max int, ttl time.Duration, now func() time.Time) *TaskMemory {
	if max < 1 {
		max = 1
	}
	return &TaskMemory{max: max, ttl: ttl, now: now, entries: make(map[Key]*list.Element), order: list.New()}
}

// Learn stores the origin of a task, in place of the previous one. The strings must not share memory
// with a message.
func (m *TaskMemory) Learn(_ context.Context, key Key, o Origin) {
	m.mu.Lock()
	defer m.mu.Unlock()
	expires := m.now().Add(m.ttl)
	if el, ok := m.entries[key]; ok {
		e := el.Value.(*taskEntry)
		e.origin, e.expires = o, expires
		m.order.MoveToFront(el)
		return
	}
	if m.order.Len() >= m.max {
		m.drop(m.order.Back())
	}
	m.entries[key] = m.order.PushFront(&taskEntry{key, o, expires})
}

// Origin returns the origin of a task. ok is false when it was never stored, has expired or was
// evicted.
func (m *TaskMemory) Origin(_ context.Context, key Key) (o Origin, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	el, ok := m.entries[key]
	if !ok {
		return Origin{}, false
	}
	e := el.Value.(*taskEntry)
	if !m.now().Before(e.expires) {
		m.drop(el)
		return Origin{}, false
	}
	m.order.MoveToFront(el)
	return e.origin, true
}

// Forget removes the entry of a task.
func (m *TaskMemory) Forget(_ context.Context, key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if el, ok := m.entries[key]; ok {
		m.drop(el)
	}
}

// Len returns the number of entries, including expired ones that were not read since.
func (m *TaskMemory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

// drop removes an entry. The caller holds mu.
func (m *TaskMemory) drop(el *list.Element) {
	delete(m.entries, el.Value.(*taskEntry).key)
	m.order.Remove(el)
}
