package bodies

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of the admission of announced bodies.
const (
	maxWait          = time.Second
	maxWaiting       = 1024
	maxWaitingCaller = 64
	// minRate is the bytes per second of a body that keeps its reservation. It is checked twice
	// while others wait, so that they do not wait for a slow body in vain.
	minRate    = 16 << 10
	rateWindow = maxWait / 2
)

// keepFree is the part of a bound that reservations leave to responses, and to bodies that are
// counted as they arrive: without it, bodies that are complete would leave no room for an answer.
// Bodies that are counted leave half of it to responses, and to the first granule of other bodies:
// without that, slow bodies of several callers would leave no room for small calls.
func keepFree(bound int64) int64 { return bound / 8 }

// admission is the queue of bodies that do not fit, in order of arrival.
type admission struct {
	// waiting is the length of queue. It is increased before the bytes of a new waiter are tried,
	// and loaded after bytes were given back: so at least one side sees the other's change.
	waiting atomic.Int32
	mu      sync.Mutex
	queue   []*waiter
}

// waiter is a body that waits for its reservation.
type waiter struct {
	share *Share
	size  int64
	ready chan struct{} // closed when the bytes are counted
}

// reservation is the part of an announced body that is counted and has not arrived. The request
// and the timer that watches its rate use it concurrently.
type reservation struct {
	all  *Counter
	rows [2]*atomic.Int64
	left atomic.Int64
	// arrived is the bytes of the body, and seen the bytes when the rate was last checked.
	arrived atomic.Int64
	seen    int64
}

// reserve counts n bytes before they arrive, one caller at most a quarter of the limit. If they do
// not fit, it waits up to a second. A body that then arrives slower than minRate loses the reservation of
// what has not arrived. Then, and after settle, bytes are counted as they arrive. The error is
// ErrOverloaded.
func (s *Share) reserve(ctx context.Context, n int64) error {
	w := &waiter{share: s, size: (n + bodyGranule - 1) / bodyGranule * bodyGranule, ready: make(chan struct{})}
	if all, own := s.all.reservable(); w.size > min(all, own) || !s.all.enqueue(w) {
		return ErrOverloaded
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-w.ready:
	case <-timer.C:
	case <-ctx.Done():
	}
	if s.all.leave(w) {
		return ErrOverloaded
	}
	r := &reservation{all: s.all, rows: s.rows}
	r.left.Store(w.size)
	s.reserved = r
	time.AfterFunc(rateWindow, r.check)
	return nil
}

// settle gives back what is reserved and has not arrived.
func (s *Share) settle() {
	if s.reserved != nil {
		s.reserved.shrink(0)
		s.reserved = nil
	}
}

// reservable returns how many bytes can be reserved in all, and by one caller.
func (b *Counter) reservable() (all, own int64) {
	all = b.limit.Load()
	own = max(all/4, largestRequest)
	return all - keepFree(all), own - keepFree(own)
}

// enqueue adds a waiter, and admits those that fit; false if too many wait.
func (b *Counter) enqueue(w *waiter) bool {
	q := &b.admission
	q.mu.Lock()
	defer q.mu.Unlock()
	own := 0
	for _, other := range q.queue {
		if other.share.rows == w.share.rows {
			own++
		}
	}
	if len(q.queue) == maxWaiting || own == maxWaitingCaller {
		return false
	}
	q.queue = append(q.queue, w)
	q.waiting.Add(1)
	b.admit()
	return true
}

// leave removes a waiter; false if it was admitted.
func (b *Counter) leave(w *waiter) bool {
	q := &b.admission
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.queue, w)
	if i < 0 {
		return false
	}
	q.queue = slices.Delete(q.queue, i, i+1)
	b.admit() // it may have been in the way of others
	return true
}

// wake admits waiters after bytes were given back.
func (b *Counter) wake() {
	b.admission.mu.Lock()
	defer b.admission.mu.Unlock()
	b.admit()
}

// admit reserves the bytes of the waiters that fit, in order of arrival, those of callers that
// hold nothing first: otherwise several callers with many slow bodies would be admitted again and
// again. A waiter that does not fit because of its own caller does not hold up others. The caller
// holds the mutex.
func (b *Counter) admit() {
	q := &b.admission
	defer func() { q.waiting.Store(int32(len(q.queue))) }()
	most, ofCaller := b.reservable()
	for _, holding := range [...]bool{false, true} {
		for i := 0; i < len(q.queue); {
			w := q.queue[i]
			rows := w.share.rows
			own := min(rows[0].Load(), rows[1].Load())
			// Only what fits is added, because a counter above its bound for a moment would refuse others.
			switch {
			case own > 0 && !holding || own+w.size > ofCaller:
				i++
			case b.total.Load()+w.size > most:
				return
			default:
				if all, _ := b.add(rows, w.size); all > b.limit.Load() { // others were faster
					b.add(rows, -w.size)
					return
				}
				close(w.ready)
				q.queue = slices.Delete(q.queue, i, i+1)
			}
		}
	}
}

// use takes up to n bytes that have arrived out of the reservation, and returns how many.
func (r *reservation) use(n int64) int64 {
	for {
		left := r.left.Load()
		n = min(n, left)
		if n == 0 || r.left.CompareAndSwap(left, left-n) {
			return n
		}
	}
}

// check ends the reservation of a body that was slower than minRate in the last window. A granule
// is left of it, so that the caller holds something even if nothing has arrived.
func (r *reservation) check() {
	arrived := r.arrived.Load()
	switch {
	case r.left.Load() <= bodyGranule:
	case arrived-r.seen < int64(minRate*rateWindow/time.Second):
		r.shrink(bodyGranule)
	default:
		r.seen = arrived
		time.AfterFunc(rateWindow, r.check)
	}
}

// shrink gives back what is reserved beyond n bytes.
func (r *reservation) shrink(n int64) {
	for {
		left := r.left.Load()
		if left <= n {
			return
		}
		if r.left.CompareAndSwap(left, n) {
			r.all.give(r.rows, left-n)
			return
		}
	}
}
