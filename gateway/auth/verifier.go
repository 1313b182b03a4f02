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

// maxTried is how many hashes a key that names no id is tried against.
const maxTried = 16

// Places in the queue of keys that name no id that is known here. Neither text
// can be an id.
const (
	unknownID = ""
	noID      = " "
)

// Verifier checks keys and remembers the outcome. It lives as long as the
// process and is safe for concurrent use.
//
// A key that verified before costs one HMAC and takes no lock. Any other costs
// an argon2id computation, of which only so many run (half the processors, and
// 20 MiB) or wait (16, three of them for one id); beyond that the answer is
// [ErrBusy]. The same key presented many times at once is computed once.
type Verifier struct {
	now      func() time.Time
	digester *digester
	verified *verified
	refused  *refused
	gate     *gate
	known    *knownFile // nil when nothing is saved
	gen      atomic.Uint64

	mu     sync.Mutex
	flying map[flightID]*flight

	computed, remembered, busy atomic.Uint64
}

// flightID names a verification under way: a key and the keyring it is for.
type flightID struct {
	digest digest
	gen    uint64
}

// flight is a verification under way; done is closed when key and err stand.
type flight struct {
	done chan struct{}
	key  *Key
	err  error
}

// Stats counts what a [Verifier] did since it was made.
type Stats struct {
	// Computed counts argon2id computations.
	Computed uint64
	// Remembered counts wrong keys that were refused from memory.
	Remembered uint64
	// Busy counts requests that were refused because the queue was full.
	Busy uint64
}

// NewVerifier returns a Verifier that reads the time from now and forgets
// everything at its end.
func NewVerifier(now func() time.Time) *Verifier {
	return newVerifier(now, newSecret())
}

// OpenVerifier returns a Verifier that knows the keys that another one saved in
// the file at path, and saves its own there: see [Verifier.Run].
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
		gate:     newGate(runtime.GOMAXPROCS(0)),
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

// Keyring builds the keys of a checked configuration. Nothing that is running
// changes, so a reload may still be refused after it; see [Keyring.Activate].
func (v *Verifier) Keyring(cfg Config) (*Keyring, error) {
	k := &Keyring{verifier: v, gen: v.gen.Add(1), byID: make(map[string]*entry, len(cfg.Keys))}
	for i, c := range cfg.Keys {
		h, err := parsePHC(c.Hash)
		if err != nil {
			return nil, fmt.Errorf("auth.keys[%d].hash: %w", i, err)
		}
		if k.byID[c.ID] != nil || !ValidID(c.ID) {
			return nil, fmt.Errorf("auth.keys[%d].id: %q is not a unique key id", i, c.ID)
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

// Activate tells the verifier that the keyring is the one in use: remembered
// keys that fit none of its entries are forgotten. Requests that still run
// under an older keyring are served; at worst they verify once more. At the
// first activation, saved keys that fit its entries are known again.
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

// Verify returns the key that was presented. It errs with [ErrMissing],
// [ErrInvalid], [ErrExpired] or [ErrBusy], or with the context's error when
// that ends while another request verifies the same key.
//
// An unknown id costs what a wrong secret costs, so that the time of an answer
// does not tell which ids exist.
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

// recall returns what is remembered about a key, and nothing when that is
// nothing.
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

// Check tells whether a key that was verified under this or an earlier keyring
// is still good: nil, [ErrInvalid] when its entry is gone or has another hash,
// or [ErrExpired]. Long streams ask it for each frame, of the current keyring.
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

// join verifies a key that is not remembered, or waits for whoever already
// does. Who verifies does so to the end, even when its own client has left:
// others may wait for the outcome, and the queue is short.
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
	// Whoever was under way a moment ago has remembered the outcome before it
	// left.
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

// compute checks the key against the hashes it may fit and remembers the
// outcome, unless the queue was full.
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
	if !v.gate.enter(place) {
		v.busy.Add(1)
		return nil, ErrBusy
	}
	defer v.gate.leave(place)

	for _, e := range tried {
		v.computed.Add(1)
		if !v.gate.matches(e.phc, presented) || e.ID == "" {
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

// decoy returns an entry that stands for an id that does not exist. It costs
// what one of the real entries costs, always the same one for the same id, and
// its empty id lets nobody in.
func (k *Keyring) decoy(d digest) *entry {
	e := k.list[binary.BigEndian.Uint64(d[:8])%uint64(len(k.list))]
	return &entry{phc: e.phc}
}
