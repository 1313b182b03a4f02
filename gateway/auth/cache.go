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

// digest stands for a presented key: HMAC-SHA-256 under a random secret, so that
// memory holds no key and nobody can choose collisions.
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
	// crypto/rand.Read never fails: it ends the process instead.
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

// maxVerified bounds the memory of keys that verified. Each entry of auth.keys
// has one key text that fits, so that only reloads with other keys fill it.
const maxVerified = 32 << 10

// verified remembers which entry a presented key fits. Reading takes no lock:
// a verification costs milliseconds, so writing may copy the map.
type verified struct {
	mu sync.Mutex
	m  atomic.Pointer[map[digest]fit]
}

// fit is the entry that a key verified against. Saved ones are known after a
// restart too.
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

// put remembers d. When the memory is full it forgets an arbitrary half: keys
// in use come back at the cost of one verification.
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

// drop forgets d.
func (v *verified) drop(d digest) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := maps.Clone(*v.m.Load())
	delete(next, d)
	v.m.Store(&next)
}

// putAll remembers at most maxVerified keys at once.
func (v *verified) putAll(fits map[digest]fit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := maps.Clone(*v.m.Load())
	maps.Copy(next, fits)
	v.m.Store(&next)
}

// retain forgets the keys that no longer fit, and counts them: keep tells which
// entries stand.
func (v *verified) retain(keep func(fit) bool) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := *v.m.Load()
	next := maps.Clone(old)
	maps.DeleteFunc(next, func(_ digest, f fit) bool { return !keep(f) })
	v.m.Store(&next)
	return len(old) - len(next)
}

// Bounds on the memory of wrong keys.
const (
	maxRefused = 4096
	refusedTTL = 10 * time.Second
)

// refused remembers wrong keys for a short time, the newest maxRefused of
// them. Only keys that are not known get this far, so its lock is theirs.
type refused struct {
	mu   sync.Mutex
	m    map[digest]refusal
	ring []digest // in order of arrival
	next int
}

type refusal struct {
	gen   uint64 // the keyring that was tried
	until time.Time
	err   error
}

func newRefused() *refused {
	return &refused{m: make(map[digest]refusal), ring: make([]digest, 0, maxRefused)}
}

// get returns why a key was refused by this keyring, or nil.
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
	r.m[d] = refusal{gen: gen, until: now.Add(refusedTTL), err: err}
}
