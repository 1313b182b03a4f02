package auth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// maxTried is the number of hashes that a key without an id is tried against.
const maxTried = 16

// Slots of the queue for keys without a known id (decision AUD4). Neither text is a valid
// id.
const (
	unknownID = ""
	noID      = " "
)

// Verifier verifies keys and remembers the outcome. It exists as long as the process and
// is safe for concurrent use.
//
// A key that verified before costs one HMAC and takes no lock. Any other key costs an
// argon2id computation. A limited number of computations run (half the processors, and 20
// MiB) or wait (16, three of them for one id); beyond that the error is [ErrBusy]
// (decisions AUD5, AUD6). The same key that is presented many times at once is computed
// once.
type Verifier struct {
	now      func() time.Time
	digester *digester
	verified *verified
	refused  *refused
	limiter  *limiter
	known    *knownFile // nil when nothing is saved
	gen      atomic.Uint64

	mu     sync.Mutex
	flying map[flightID]*flight

	computed, remembered, busy atomic.Uint64
}

// flightID identifies a verification in flight: a key and the keyring that verifies it.
type flightID struct {
	digest digest
	gen    uint64
}

// flight is a verification in flight; done is closed after key and err are set.
type flight struct {
	done chan struct{}
	key  *Key
	err  error
}

// Stats are the counters of a [Verifier].
type Stats struct {
	// Computed counts argon2id computations.
	Computed uint64
	// Remembered counts wrong keys that were rejected from memory.
	Remembered uint64
	// Busy counts requests that were rejected because the queue was full.
	Busy uint64
}

// NewVerifier returns a Verifier that uses the clock now and saves nothing.
func NewVerifier(now func() time.Time) *Verifier {
	return newVerifier(now, newSecret())
}

// OpenVerifier returns a Verifier with the keys that a previous process saved in the file
// at path. It saves its own keys there: see [Verifier.Run].
func OpenVerifier(now func() time.Time, path string, log *slog.Logger) *Verifier {
	known := openKnown(path, log)
	v := newVerifier(now, known.secret)
	v.known = known
	return v
}

func newVerifier(now func() time.Time, secret [sha256.Size]byte) *Verifier {
	return &Verifier{
		now:      now,
		digester: newDigester(secret),
		verified: newVerified(),
		refused:  newRefused(),
		limiter:  newLimiter(runtime.GOMAXPROCS(0)),
		flying:   make(map[flightID]*flight),
	}
}

// Stats returns the counters.
func (v *Verifier) Stats() Stats {
	return Stats{Computed: v.computed.Load(), Remembered: v.remembered.Load(), Busy: v.busy.Load()}
}

// Keyring is the set of keys of one configuration snapshot. It is immutable
// and safe for concurrent use.
type Keyring struct {
	verifier *Verifier
	gen      uint64
	byID     map[string]*entry
	list     []*entry
}

type entry struct {
	Key
	phc phc
}

// Keyring builds the keys of a validated configuration. It has no effect on the running
// keyring, so that a reload may still be rejected afterwards; see [Keyring.Activate].
func (v *Verifier) Keyring(cfg Config) (*Keyring, error) {
	k := &Keyring{verifier: v, gen: v.gen.Add(1), byID: make(map[string]*entry, len(cfg.Keys))}
	for i, c := range cfg.Keys {
		h, err := parsePHC(c.Hash)
		if err != nil {
			return nil, fmt.Errorf("auth.keys[%d].hash: %w", i, err)
		}
		if k.byID[c.ID] != nil || !ValidID(c.ID) {
			return nil, fmt.Errorf("auth.keys[%d].id: %q is invalid or not unique", i, c.ID)
		}
		e := &entry{
			Key: Key{ID: c.ID, Scopes: c.Scopes, CreatedAt: c.CreatedAt, ExpiresAt: c.ExpiresAt, hash: c.Hash},
			phc: h,
		}
		k.byID[c.ID] = e
		k.list = append(k.list, e)
	}
	return k, nil
}

// Activate makes the keyring the current one: remembered keys that match none of its
// entries are removed. Requests that still use an older keyring are served; at worst they
// verify once more. The first activation loads the saved keys that match its entries.
func (k *Keyring) Activate() {
	v := k.verifier
	gone := v.verified.retain(func(f fit) bool {
		e := k.byID[f.id]
		return e != nil && e.hash == f.hash
	})
	if v.known == nil {
		return
	}
	fits, left := v.known.take(k)
	v.verified.putAll(fits)
	if gone+left > 0 {
		v.known.change()
	}
}

// Verify verifies the presented key. The error is [ErrMissing], [ErrInvalid],
// [ErrExpired] or [ErrBusy], or the context's error when the context ends while another
// request verifies the same key.
//
// An unknown id costs as much as a wrong secret, so that the response time does not
// reveal which ids exist (decision AUD4).
func (k *Keyring) Verify(ctx context.Context, presented string) (*Key, error) {
	if presented == "" {
		return nil, ErrMissing
	}
	if !presentable(presented) || len(k.list) == 0 {
		return nil, ErrInvalid
	}
	v := k.verifier
	d := v.digester.sum(presented)
	if key, err := v.recall(k, d); key != nil || err != nil {
		return key, err
	}
	return v.join(ctx, k, d, presented)
}

// recall returns the remembered outcome for a key, if there is one.
func (v *Verifier) recall(k *Keyring, d digest) (*Key, error) {
	now := v.now()
	if f, ok := v.verified.get(d); ok {
		if e := k.byID[f.id]; e != nil && e.hash == f.hash {
			if !e.expired(now) {
				return &e.Key, nil
			}
			v.refused.put(d, k.gen, now, ErrExpired)
			v.verified.drop(d)
			return nil, ErrExpired
		}
	}
	if err := v.refused.get(d, k.gen, now); err != nil {
		v.remembered.Add(1)
		return nil, err
	}
	return nil, nil
}

// Check reports whether a key that was verified under this or an earlier keyring is still
// valid: nil, [ErrInvalid] when its entry was removed or has another hash, or
// [ErrExpired]. Long streams call it for each frame, with the current keyring.
func (k *Keyring) Check(key *Key) error {
	e := k.byID[key.ID]
	switch {
	case e == nil || e.hash != key.hash:
		return ErrInvalid
	case e.expired(k.verifier.now()):
		return ErrExpired
	}
	return nil
}

// join verifies a key that is not remembered, or waits for the verification in flight. A
// verification runs to its end even when its own client disconnects, because others may
// wait for the outcome, and the queue is short (decision AUD12).
func (v *Verifier) join(ctx context.Context, k *Keyring, d digest, presented string) (*Key, error) {
	id := flightID{d, k.gen}
	v.mu.Lock()
	if f := v.flying[id]; f != nil {
		v.mu.Unlock()
		select {
		case <-f.done:
			if errors.Is(f.err, ErrBusy) {
				v.busy.Add(1)
			}
			return f.key, f.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// A verification that was in flight before this lock has stored its outcome before it
	// was removed from flights.
	if key, err := v.recall(k, d); key != nil || err != nil {
		v.mu.Unlock()
		return key, err
	}
	f := &flight{done: make(chan struct{}), err: ErrInvalid}
	v.flying[id] = f
	v.mu.Unlock()

	defer func() {
		v.mu.Lock()
		delete(v.flying, id)
		v.mu.Unlock()
		close(f.done)
	}()
	f.key, f.err = v.compute(k, d, presented)
	return f.key, f.err
}

// compute checks the key against the hashes that it may match and remembers the outcome,
// unless the queue was full.
func (v *Verifier) compute(k *Keyring, d digest, presented string) (*Key, error) {
	id, ours := splitKey(presented)
	tried := k.list[:min(len(k.list), maxTried)]
	place, invalid := noID, errNoHash
	if ours {
		place, invalid = id, errWrongHash
		if e := k.byID[id]; e != nil {
			tried = []*entry{e}
		} else {
			place, invalid = unknownID, errUnknownID
			tried = []*entry{k.decoy(v.digester.sum(id))}
		}
	}
	if !v.limiter.acquire(place) {
		v.busy.Add(1)
		return nil, ErrBusy
	}
	defer v.limiter.release(place)

	for _, e := range tried {
		v.computed.Add(1)
		if !v.limiter.matches(e.phc, presented) || e.ID == "" {
			continue
		}
		now := v.now()
		if e.expired(now) {
			v.refused.put(d, k.gen, now, ErrExpired)
			return nil, ErrExpired
		}
		v.verified.put(d, fit{id: e.ID, hash: e.hash, saved: ours})
		if ours {
			v.known.change()
		}
		return &e.Key, nil
	}
	v.refused.put(d, k.gen, v.now(), invalid)
	return nil, invalid
}

// decoy returns an entry for an id that does not exist. It has the costs of a real entry,
// always of the same one for the same id (decision AUD4), and its empty id never
// authenticates.
func (k *Keyring) decoy(d digest) *entry {
	e := k.list[binary.BigEndian.Uint64(d[:8])%uint64(len(k.list))]
	return &entry{phc: e.phc}
}
