package redis

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

const (
	// defaultMaxBuckets is the default bound of the buckets in a [Memory]; each uses less
	// than 256 bytes.
	defaultMaxBuckets = 1 << 18

	shardCount = 64
	// sweepPerInsert is the number of least recently used buckets that are checked when a
	// bucket is added. It is more than one, so that the buckets of a burst of principals
	// are removed as fast as they were added.
	sweepPerInsert = 2
	// evictionScan is the number of least recently used buckets that are searched for a
	// full one before a shard at its bound evicts one that is not full.
	evictionScan = 8
)

// Memory stores buckets in the process (gateway specification, rate_limit_store, type
// in_memory). It is bounded: buckets that are full again are removed as new ones are
// added, and at the bound the least recently used bucket is evicted. It is safe for
// concurrent use, has no goroutine and needs no Close.
type Memory struct {
	seeds  [2]maphash.Seed
	epoch  time.Time
	shards [shardCount]shard
}

// digest identifies a Key: 128 bits with random seeds, so that a principal of eight
// kilobytes uses no more memory than an address and a client cannot construct collisions.
type digest [2]uint64

// NewMemory returns an empty store of at most maxBuckets buckets; zero or less means
// defaultMaxBuckets. now is the origin of its clock, which steps of the wall clock do
// not affect as long as the times passed have a monotonic reading.
func NewMemory(maxBuckets int, now time.Time) *Memory {
	if maxBuckets <= 0 {
		maxBuckets = defaultMaxBuckets
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

// Len returns the number of buckets.
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

// shard is a part of the store: a map to indexes of a slice, whose entries also form a
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
	bucket     bucket
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

// insert adds an entry with a full bucket, not yet in the list.
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
	e := entry{key: key, bucket: newBucket(burst, now), prev: none, next: none}
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

// victim returns the bucket that a full shard evicts: a full bucket if there is one near
// the end of the list, else the least recently used one.
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
