package translate

import (
	"sync"
	"time"

	"svc/gateway/session"
)

// Limits of both directions.
const (
	answerTime     = 5 * time.Minute // for the answers to the questions of a result
	maxInOneResult = 64              // questions
	// Resources that a session, or a subscriptions/listen, is subscribed to, and the bytes of their URIs.
	maxURIs     = 1000
	maxURIBytes = 256 << 10
)

// Limits of what waits for the answers of clients, at all upstreams.
const (
	maxHeld       = 1024 // calls
	maxHeldByEach = 64   // of a principal
	maxQuestions  = 4096 // requests for clients with sessions
	maxOfSession  = 64   // of one session
)

// Limits count what waits for the answers of clients, at all upstreams whose translators share them.
type Limits struct {
	held      *Quota[poolKey] // calls, by principal
	questions *Quota[session.ID]
}

// NewLimits returns the limits of a gateway.
func NewLimits() *Limits {
	return &Limits{NewQuota[poolKey](maxHeld, maxHeldByEach), NewQuota[session.ID](maxQuestions, maxOfSession)}
}

// Quota counts held items by keys of type K. The limits apply to all users of the Quota.
// It is safe for concurrent use.
type Quota[K comparable] struct {
	all, each int // limits

	mu    sync.Mutex
	total int
	of    map[K]int
}

// NewQuota returns a Quota of at most all in total and each for one key.
func NewQuota[K comparable](all, each int) *Quota[K] {
	return &Quota[K]{all: all, each: each, of: map[K]int{}}
}

// Take adds n to the count of a key. If that exceeds a limit, it is false and nothing is
// counted.
func (q *Quota[K]) Take(key K, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total+n > q.all || q.of[key]+n > q.each {
		return false
	}
	if n == 0 { // otherwise the key would never be removed by Give
		return true
	}
	q.total += n
	q.of[key] += n
	return true
}

// Give subtracts n from the count of a key.
func (q *Quota[K]) Give(key K, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total -= n
	if q.of[key] -= n; q.of[key] == 0 {
		delete(q.of, key)
	}
}

// Held returns the count of a key.
func (q *Quota[K]) Held(key K) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.of[key]
}
