package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"hash"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// digest identifies a presented key: HMAC-SHA-256 with a random secret, so that the
// memory contains no key and a client cannot construct collisions.
type digest [sha256.Size]byte

// digester computes digests without allocating.
type digester struct{ pool sync.Pool }

type digestState struct {
	mac hash.Hash
	in  []byte
	out []byte
}

// newSecret returns random bytes for a digester.
func newSecret() (secret [sha256.Size]byte) {
	// crypto/rand.Read never returns an error: it aborts the process instead.
	_, _ = rand.Read(secret[:])
	return secret
}

func newDigester(secret [sha256.Size]byte) *digester {
	return &digester{pool: sync.Pool{New: func() any {
		return &digestState{mac: hmac.New(sha256.New, secret[:]), out: make([]byte, 0, sha256.Size)}
	}}}
}

func (d *digester) sum(text string) digest {
	s, _ := d.pool.Get().(*digestState)
	s.mac.Reset()
	s.in = append(s.in[:0], text...)
	s.mac.Write(s.in)
	s.out = s.mac.Sum(s.out[:0])
	sum := digest(s.out)
	clear(s.in)
	d.pool.Put(s)
	return sum
}

// maxVerified bounds the number of remembered valid keys. Each entry of auth.keys has one
// valid key text, so only reloads with other keys fill the memory.
const maxVerified = 32 << 10

// verified maps presented keys to the entries that they verified against. Reads take no
// lock: a verification takes milliseconds, so that a write may copy the map.
type verified struct {
	mu sync.Mutex
	m  atomic.Pointer[map[digest]fit]
}

// fit is the entry that a key verified against. Entries that are saved remain known after
// a restart.
type fit struct {
	id, hash string
	saved    bool
}

func newVerified() *verified {
	v := &verified{}
	v.m.Store(&map[digest]fit{})
	return v
}

func (v *verified) get(d digest) (fit, bool) {
	f, ok := (*v.m.Load())[d]
	return f, ok
}

// put stores d. When the map is full, put removes an arbitrary half: a key in use is
// verified once more and stored again.
func (v *verified) put(d digest, f fit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := maps.Clone(*v.m.Load())
	if len(next) >= maxVerified {
		for k := range next {
			if delete(next, k); len(next) <= maxVerified/2 {
				break
			}
		}
	}
	next[d] = f
	v.m.Store(&next)
}

// drop removes d.
func (v *verified) drop(d digest) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := maps.Clone(*v.m.Load())
	delete(next, d)
	v.m.Store(&next)
}

// putAll stores at most maxVerified keys at once.
func (v *verified) putAll(fits map[digest]fit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := maps.Clone(*v.m.Load())
	maps.Copy(next, fits)
	v.m.Store(&next)
}

// retain removes the keys for which keep returns false and counts them: keep reports
// whether an entry still exists.
func (v *verified) retain(keep func(fit) bool) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := *v.m.Load()
	next := maps.Clone(old)
	maps.DeleteFunc(next, func(_ digest, f fit) bool { return !keep(f) })
	v.m.Store(&next)
	return len(old) - len(next)
}

// Bounds of the memory of wrong keys.
const (
	maxRefused = 4096
	refusedTTL = 10 * time.Second
)

// refused remembers wrong keys for a short time, the newest maxRefused of them. Only keys
// that are not in verified are looked up here, so valid keys do not contend for its lock.
type refused struct {
	mu   sync.Mutex
	m    map[digest]failure
	ring []digest // in order of arrival
	next int
}

type failure struct {
	gen   uint64 // the keyring that rejected the key
	until time.Time
	err   error
}

func newRefused() *refused {
	return &refused{m: make(map[digest]failure), ring: make([]digest, 0, maxRefused)}
}

// get returns the error with which this keyring rejected a key, or nil.
func (r *refused) get(d digest, gen uint64, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.m[d]; ok && e.gen == gen && now.Before(e.until) {
		return e.err
	}
	return nil
}

func (r *refused) put(d digest, gen uint64, now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.m[d]; !known {
		if len(r.ring) < maxRefused {
			r.ring = append(r.ring, d)
		} else {
			delete(r.m, r.ring[r.next])
			r.ring[r.next] = d
			r.next = (r.next + 1) % maxRefused
		}
	}
	r.m[d] = failure{gen: gen, until: now.Add(refusedTTL), err: err}
}
