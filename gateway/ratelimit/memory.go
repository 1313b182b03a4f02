package ratelimit

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

const (
	// DefaultMaxBuckets is how many buckets a [Memory] keeps unless told
	// otherwise; each costs less than 256 bytes once it is used.
	DefaultMaxBuckets = 1 << 18

	shardCount = 64
	// sweepPerInsert is how many of the longest unused buckets are looked at when
	// a new one is made: more than one, so that a burst of principals goes away
	// as fast as it came.
	sweepPerInsert = 2
	// evictionScan is how many of the longest unused buckets are searched for one
	// that is full again before a shard at its bound forgets one that is not.
	evictionScan = 8
)

// Memory keeps buckets in the process (gateway specification, rate_limit_store,
// type in_memory). It is bounded: buckets that are full again are forgotten as
// new ones come, and at the bound the longest unused one makes room. It is safe
// for concurrent use, has no goroutine and needs no closing.
type Memory struct {
	seeds  [2]maphash.Seed
	epoch  time.Time
	shards [shardCount]shard
}

// digest stands for a Key: 128 bits under secret seeds, so that a principal of
// eight kilobytes costs what an address costs and nobody can look for collisions.
type digest [2]uint64

// NewMemory returns an empty store of at most maxBuckets buckets; zero or less
// means [DefaultMaxBuckets]. now anchors its time line, on which a step of the
// wall clock is not seen as long as the times passed carry a monotonic reading.
func NewMemory(maxBuckets int, now time.Time) *Memory {
	if maxBuckets <= 0 {
		maxBuckets = DefaultMaxBuckets
	}
	m := &Memory{
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		epoch: now,
	}
	for i := range m.shards {
		m.shards[i].bound = max(1, (maxBuckets+shardCount-1)/shardCount)
	}
	return m
}

// Allow implements [Store]; it never returns an error.
func (m *Memory) Allow(_ context.Context, key Key, rate float64, burst int, now time.Time) (bool, time.Duration, error) {
	d := digest{maphash.Comparable(m.seeds[0], key), maphash.Comparable(m.seeds[1], key)}
	ok, retryAfter := m.shards[d[0]%shardCount].take(d, rate, burst, int64(now.Sub(m.epoch)))
	return ok, retryAfter, nil
}

// Len returns how many buckets are kept.
func (m *Memory) Len() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		n += len(s.index)
		s.mu.Unlock()
	}
	return n
}

// shard is a part of the store: a map into a slice of entries that also form a
// list, most recently used first.
type shard struct {
	bound int

	mu      sync.Mutex
	index   map[digest]int32
	entries []entry
	head    int32 // most recently used; only valid while index is not empty
	tail    int32
	free    []int32
}

type entry struct {
	key        digest
	bucket     Bucket
	fullAt     int64
	prev, next int32
}

const none = int32(-1)

func (s *shard) take(key digest, rate float64, burst int, now int64) (bool, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, found := s.index[key]
	if found {
		s.unlink(i)
	} else {
		i = s.insert(key, burst, now)
	}
	s.pushFront(i)
	e := &s.entries[i]
	ok, retryAfter := e.bucket.Take(rate, burst, now)
	e.fullAt = e.bucket.fullAt(rate, burst)
	return ok, retryAfter
}

// insert makes an entry with a full bucket, not yet linked.
func (s *shard) insert(key digest, burst int, now int64) int32 {
	if s.index == nil {
		s.index = make(map[digest]int32)
		s.head, s.tail = none, none
	}
	for range sweepPerInsert {
		if t := s.tail; t != none && s.entries[t].fullAt <= now {
			s.drop(t)
		}
	}
	if len(s.index) >= s.bound {
		s.drop(s.victim(now))
	}
	e := entry{key: key, bucket: NewBucket(burst, now), prev: none, next: none}
	var i int32
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
		s.entries[i] = e
	} else {
		i = int32(len(s.entries))
		s.entries = append(s.entries, e)
	}
	s.index[key] = i
	return i
}

// victim is the bucket that a full shard forgets: one that is full again if
// there is one near the end, else the longest unused one.
func (s *shard) victim(now int64) int32 {
	for i, n := s.tail, 0; i != none && n < evictionScan; i, n = s.entries[i].prev, n+1 {
		if s.entries[i].fullAt <= now {
			return i
		}
	}
	return s.tail
}

func (s *shard) drop(i int32) {
	s.unlink(i)
	delete(s.index, s.entries[i].key)
	s.free = append(s.free, i)
}

func (s *shard) unlink(i int32) {
	e := &s.entries[i]
	if e.prev != none {
		s.entries[e.prev].next = e.next
	} else {
		s.head = e.next
	}
	if e.next != none {
		s.entries[e.next].prev = e.prev
	} else {
		s.tail = e.prev
	}
	e.prev, e.next = none, none
}

func (s *shard) pushFront(i int32) {
	e := &s.entries[i]
	e.prev, e.next = none, s.head
	if s.head != none {
		s.entries[s.head].prev = i
	} else {
		s.tail = i
	}
	s.head = i
}
