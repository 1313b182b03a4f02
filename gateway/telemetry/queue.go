package telemetry

import (
	"sync"
	"sync/atomic"
)

const (
	shards     = 8
	shardSpans = 1024
	// wakeAt is how full a shard is when its pipeline is woken.
	wakeAt = shardSpans / 4
)

// queue holds the spans that wait for their pipeline. It is bounded, and split
// so that requests seldom meet at one lock.
type queue struct {
	shards  [shards]shard
	wake    chan struct{}
	dropped atomic.Uint64
}

type shard struct {
	mu    sync.Mutex
	ring  []Span
	first int
	n     int
	_     [64]byte // its own cache line
}

func newQueue() *queue {
	q := &queue{wake: make(chan struct{}, 1)}
	for i := range q.shards {
		q.shards[i].ring = make([]Span, shardSpans)
	}
	return q
}

// push takes a copy of the span, or counts it as dropped.
func (q *queue) push(s *Span) {
	sh := &q.shards[s.Trace.Server[1]%shards] // of a random id
	sh.mu.Lock()
	n := sh.n
	if n == shardSpans {
		sh.mu.Unlock()
		q.dropped.Add(1)
		return
	}
	sh.ring[(sh.first+n)%shardSpans] = *s
	sh.n++
	sh.mu.Unlock()
	if n >= wakeAt {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// take moves at most room spans to dst.
func (q *queue) take(dst []Span, room int) []Span {
	for i := range q.shards {
		sh := &q.shards[i]
		sh.mu.Lock()
		for sh.n > 0 && room > 0 {
			slot := &sh.ring[sh.first]
			dst = append(dst, *slot)
			*slot = Span{} // its texts may go
			sh.first = (sh.first + 1) % shardSpans
			sh.n--
			room--
		}
		sh.mu.Unlock()
	}
	return dst
}

// len is how many spans wait.
func (q *queue) len() int {
	n := 0
	for i := range q.shards {
		sh := &q.shards[i]
		sh.mu.Lock()
		n += sh.n
		sh.mu.Unlock()
	}
	return n
}
