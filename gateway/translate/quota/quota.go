// Package quota bounds what is held open while clients are asked: in all, whichever
// upstream asks, and by each client.
package quota

import "sync"

// Quota counts what is held, for keys of type K. The bounds hold for all who share it. It
// is safe for concurrent use.
type Quota[K comparable] struct {
	all, each int // bounds

	mu    sync.Mutex
	total int
	of    map[K]int
}

// New returns a Quota of at most all in total and each for one key.
func New[K comparable](all, each int) *Quota[K] {
	return &Quota[K]{all: all, each: each, of: map[K]int{}}
}

// Take counts n more for a key. It is false, and counts nothing, beyond a bound.
func (q *Quota[K]) Take(key K, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total+n > q.all || q.of[key]+n > q.each {
		return false
	}
	if n == 0 { // Give would never come to forget the key
		return true
	}
	q.total += n
	q.of[key] += n
	return true
}

// Give counts n less for a key, which Take has counted.
func (q *Quota[K]) Give(key K, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total -= n
	if q.of[key] -= n; q.of[key] == 0 {
		delete(q.of, key)
	}
}

// Held returns how much is counted for a key.
func (q *Quota[K]) Held(key K) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of[key]
}
