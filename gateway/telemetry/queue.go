package telemetry

import (
	"sync"
	"sync/atomic"
)

const (
	shards     = 8
	shardSpans = 1024
	// shardBytes bounds the size of a shard.
	shardBytes = 1 << 20
	// wakeAt is the fill level of a shard at which its pipeline is woken.
	wakeAt = shardSpans / 4
)

// queue contains the spans that wait for their pipeline, one record per request, in
// their wire format: bytes without pointers are not scanned by the garbage collector. It
// is bounded, and sharded so that requests rarely contend for a lock.
type queue struct {
	shards  [shards]shard
	wake    chan struct{}
	dropped atomic.Uint64
}

type shard struct {
	mu    sync.Mutex
	data  []byte
	ends  []int32 // of the records in data
	first int     // number of records in front that were taken
	_     [64]byte
}

// start returns the offset of the first waiting record. The caller holds mu.
func (sh *shard) start() int32 {
	if sh.first == 0 {
		return 0
	}
	return sh.ends[sh.first-1]
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// admits reports whether there is space for one more record; if not, the record is
// counted as dropped.
func (q *queue) admits(of SpanID) bool {
	sh := &q.shards[of[1]%shards]
	sh.mu.Lock()
	n := len(sh.ends) - sh.first
	sh.mu.Unlock()
	if n == shardSpans {
		q.dropped.Add(1)
	}
	return n < shardSpans
}

// push stores a copy of a record, or counts it as dropped. of is the id of its span,
// which is random and selects the shard.
func (q *queue) push(of SpanID, record []byte) {
	sh := &q.shards[of[1]%shards]
	sh.mu.Lock()
	n := len(sh.ends) - sh.first
	if len(sh.ends) == shardSpans || len(sh.data)+len(record) > shardBytes {
		sh.compact()
	}
	if n == shardSpans || len(sh.data)+len(record) > shardBytes {
		sh.mu.Unlock()
		q.dropped.Add(1)
		return
	}
	sh.data = append(sh.data, record...)
	sh.ends = append(sh.ends, int32(len(sh.data)))
	sh.mu.Unlock()
	if n >= wakeAt {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// take moves at most room records to dst, and returns their number.
func (q *queue) take(dst []byte, room int) ([]byte, int) {
	taken := 0
	for i := range q.shards {
		sh := &q.shards[i]
		sh.mu.Lock()
		if n := min(len(sh.ends)-sh.first, room-taken); n > 0 {
			from := sh.start()
			sh.first += n
			dst = append(dst, sh.data[from:sh.start()]...)
			taken += n
			if sh.first == len(sh.ends) {
				sh.compact()
			}
		}
		sh.mu.Unlock()
	}
	return dst, taken
}

// compact releases the space of records that were taken. The caller holds mu.
func (sh *shard) compact() {
	gone := sh.start()
	sh.data = sh.data[:copy(sh.data, sh.data[gone:])]
	sh.ends = sh.ends[:copy(sh.ends, sh.ends[sh.first:])]
	for i := range sh.ends {
		sh.ends[i] -= gone
	}
	sh.first = 0
}

// len returns the number of waiting requests.
func (q *queue) len() int {
	n := 0
	for i := range q.shards {
		sh := &q.shards[i]
		sh.mu.Lock()
		n += len(sh.ends) - sh.first
		sh.mu.Unlock()
	}
	return n
}
