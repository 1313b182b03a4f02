package auth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxTried is the number of hashes that a key without an id is compared with.
const maxTried = 16

// Slots of the queue for keys without a known id. Neither text is a valid
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
// MiB) or wait (256, of which 64 from one address for one id, served by turns of the
// addresses); beyond that the error is [ErrBusy]. The same key that is
// presented many times at once is computed once.
type Verifier struct {
	now      func() time.Time
	digester *digester
	verified *verified
	refused  *refused
	limiter  *limiter
	known    *knownFile // nil when nothing is saved
	gen      atomic.Uint64
	active   atomic.Pointer[Keyring] // the last one that was activated; nil before
	tenures  atomic.Pointer[tenures] // as of the last activation, or of the file

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
	v.tenures.Store(savedTenures(known.tenures, known.floor))
	return v
}

func newVerifier(now func() time.Time, secret [sha256.Size]byte) *Verifier {
	v := &Verifier{
		now:      now,
		digester: newDigester(secret),
		verified: newVerified(),
		refused:  newRefused(),
		limiter:  newLimiter(runtime.GOMAXPROCS(0)),
		flying:   make(map[flightID]*flight),
	}
	v.tenures.Store(new(tenures))
	return v
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
	// byID has the secrets of each key.
	byID map[string][]*entry
	// ids are the keys in the order of the file.
	ids []string
	// withoutID are the secrets that a key without an id is compared with, in this order and at
	// most maxTried of them.
	withoutID []*entry
}

type entry struct {
	Key
	phc phc
	// hasID is set once a key that contains the id has matched, so that no other key can.
	hasID atomic.Bool
}

// Keyring builds the keys of a validated configuration. It has no effect on the running
// keyring, so that a reload may still be rejected afterwards; see [Keyring.Activate].
func (v *Verifier) Keyring(cfg Config) (*Keyring, error) {
	k := &Keyring{verifier: v, gen: v.gen.Add(1), byID: make(map[string][]*entry, len(cfg.Keys))}
	var others []*entry // entries that do not state whether their keys contain the id
	for i := range cfg.Keys {
		c := &cfg.Keys[i]
		if k.byID[c.ID] != nil || !ValidID(c.ID) {
			return nil, fmt.Errorf("auth.keys[%d].id: %q is invalid or not unique", i, c.ID)
		}
		listed := c.Hashes != nil
		replaceable := !listed && !v.active.Load().strict(c.ID)
		for _, secret := range c.secrets() {
			h, err := parsePHC(secret.Hash)
			if err != nil {
				return nil, fmt.Errorf("auth.keys[%d]: hash: %w", i, err)
			}
			e := &entry{
				Key: Key{
					ID: c.ID, N: secret.N, Owner: c.Owner, Scopes: c.Scopes, CreatedAt: c.CreatedAt, ExpiresAt: secret.ExpiresAt,
					hash: secret.Hash, secret: secretOf(secret.Hash, listed), replaceable: replaceable,
				},
				phc: h,
			}
			k.byID[c.ID] = append(k.byID[c.ID], e)
			switch {
			case c.WithoutID && secret.N == 0:
				k.withoutID = append(k.withoutID, e)
			case secret.N == 0:
				others = append(others, e)
			}
		}
		k.ids = append(k.ids, c.ID)
	}
	k.withoutID = append(k.withoutID, others...)
	return k, nil
}

// IDOf returns the id that a key text contains, without the number of an entry of hashes; empty if it
// has none, or one that no key of the configuration has and that is so long that a text with two
// secrets would show one of them.
func (k *Keyring) IDOf(text string) string {
	whole, ok := SplitKey(text)
	id, _, _ := CutN(whole)
	if !ok || k.byID[id] == nil && len(id) >= secretChars {
		return ""
	}
	return id
}

// find returns the entry with a hash; nil if the id has none.
func (k *Keyring) find(id, hash string) *entry {
	for _, e := range k.byID[id] {
		if e.hash == hash {
			return e
		}
	}
	return nil
}

// found returns the entry that a key matched; nil if it is no longer there.
func (k *Keyring) found(f fit) *entry {
	e := k.find(f.id, f.hash)
	if e != nil && f.saved {
		e.hasID.Store(true)
	}
	return e
}

// strict reports whether the sessions of an id end with their secrets: see [Keyring.Holds].
func (k *Keyring) strict(id string) bool {
	return k != nil && len(k.byID[id]) > 0 && !k.byID[id][0].replaceable
}

// Holds reports whether the secret with which a caller opened something, such as a session, at a
// time in nanoseconds since 1970, is in the keyring and was so ever since, so that what it opened ends with it, and does
// not come back with a secret that was removed and is put back. A key with the one field hash
// holds the secrets of its id that were such a field too: replicas may each have their own hash of
// the same key. It does not hold a secret of hashes, and none but its own once this process has had
// hashes for the id: the others were removed. The zero Secret, and callers that are not identified
// by a key, are held.
func (k *Keyring) Holds(p *Principal, opened Secret, at int64) bool {
	if k == nil || p.Kind != KindKey || opened == (Secret{}) {
		return true
	}
	return k.holds(p.Value, opened) && !k.verifier.tenures.Load().ended(p.Value, opened, at)
}

// holds reports whether the keyring has a secret of an id, or what stands for it. It has the zero
// Secret of each of its ids.
func (k *Keyring) holds(id string, opened Secret) bool {
	for _, e := range k.byID[id] {
		if opened == (Secret{}) || e.secret.same(opened) || e.replaceable && !opened.listed() {
			return true
		}
	}
	return false
}

// Activate makes the keyring the current one: remembered keys that match none of its
// entries are removed, and what secrets opened that it does not have is ended for good. Requests that still use an older keyring are served; at worst they
// verify once more. The first activation loads the saved keys that match its entries.
func (k *Keyring) Activate() {
	v := k.verifier
	v.active.Store(k)
	gone := v.verified.retain(func(f fit) bool {
		return k.found(f) != nil
	})
	tenures, moved := v.tenures.Load().under(k, v.now())
	v.tenures.Store(tenures)
	if v.known == nil {
		return
	}
	fits, left := v.known.take(k)
	for _, f := range fits {
		k.found(f)
	}
	v.verified.putAll(fits)
	if gone+left > 0 || moved {
		v.known.change()
	}
}

// Verify verifies the key that a client at the address presents. The error is [ErrMissing], errInvalid,
// [ErrExpired] or [ErrBusy], or the context's error when the context ends while another
// request verifies the same key.
//
// An unknown id costs as much as a wrong secret, so that the response time does not
// reveal which ids exist.
func (k *Keyring) Verify(ctx context.Context, presented, address string) (*Key, error) {
	if presented == "" {
		return nil, ErrMissing
	}
	if err := presentable(presented); err != nil {
		return nil, err
	}
	if len(k.ids) == 0 {
		return nil, errInvalid
	}
	v := k.verifier
	d := v.digester.sum(presented)
	if key, err := v.recall(k, d); key != nil || err != nil {
		return key, err
	}
	return v.join(ctx, k, d, presented, address)
}

// recall returns the remembered outcome for a key, if there is one.
func (v *Verifier) recall(k *Keyring, d digest) (*Key, error) {
	now := v.now()
	if f, ok := v.verified.get(d); ok {
		if e := k.find(f.id, f.hash); e != nil {
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
// valid: nil, errInvalid when its entry was removed or has another hash, or
// [ErrExpired]. Long streams call it for each frame, with the current keyring.
func (k *Keyring) Check(key *Key) error {
	e := k.find(key.ID, key.hash)
	switch {
	case e == nil:
		return errInvalid
	case e.expired(k.verifier.now()):
		return ErrExpired
	}
	return nil
}

// join verifies a key that is not remembered, or waits for the verification in flight. A
// verification runs to its end even when its own client disconnects, because others may
// wait for the outcome, and the queue is short.
func (v *Verifier) join(ctx context.Context, k *Keyring, d digest, presented, address string) (*Key, error) {
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
	f := &flight{done: make(chan struct{}), err: errInvalid}
	v.flying[id] = f
	v.mu.Unlock()

	defer func() {
		v.mu.Lock()
		delete(v.flying, id)
		v.mu.Unlock()
		close(f.done)
	}()
	f.key, f.err = v.compute(k, d, presented, address)
	return f.key, f.err
}

// compute checks the key against the hashes that it may match and remembers the outcome,
// unless the queue was full.
func (v *Verifier) compute(k *Keyring, d digest, presented, address string) (*Key, error) {
	id, ours := SplitKey(presented)
	place, tried, invalid := noID, k.withoutID, errNoHash
	if ours {
		place, tried, invalid = k.candidates(id, v.digester.sum(id))
	} else if len(tried) > maxTried {
		tried = slices.DeleteFunc(slices.Clone(tried), func(e *entry) bool { return e.hasID.Load() })
		tried = tried[:min(len(tried), maxTried)]
	}
	from := origin{network: networkOf(address), id: place}

	for _, e := range tried {
		matches, ok := v.limiter.matches(from, e.phc, presented)
		if !ok {
			v.busy.Add(1)
			return nil, ErrBusy
		}
		v.computed.Add(1)
		if !matches || e.ID == "" {
			continue
		}
		now := v.now()
		if e.expired(now) {
			v.refused.put(d, k.gen, now, ErrExpired)
			return nil, ErrExpired
		}
		v.verified.put(d, fit{id: e.ID, hash: e.hash, saved: ours})
		if ours {
			e.hasID.Store(true)
			v.known.change()
		}
		return &e.Key, nil
	}
	v.refused.put(d, k.gen, v.now(), invalid)
	return nil, invalid
}

// candidates returns the entries that a key which contains an id may match: the entry with
// the number of the key, or those without a number. place is the id whose queue the key waits
// in, and invalid the error if none matches.
//
// Without such an entry they are decoys with the costs of a real one, always of the same one
// for the same text; their empty id never authenticates.
func (k *Keyring) candidates(id string, d digest) (place string, tried []*entry, invalid error) {
	list, n := k.byID[id], 0
	place, invalid = id, errWrongHash
	if list == nil {
		if base, number, ok := CutN(id); ok && k.byID[base] != nil {
			list, n, place = k.byID[base], number, base
		}
	}
	if tried = numbered(list, n); tried != nil {
		return place, tried, invalid
	}
	if invalid = errUnknownN; list == nil {
		place, invalid = unknownID, errUnknownID
	}
	list = k.byID[k.ids[binary.BigEndian.Uint64(d[:8])%uint64(len(k.ids))]]
	like := numbered(list, 0)
	if like == nil {
		like = list[:1]
	}
	for _, e := range like {
		tried = append(tried, &entry{phc: e.phc})
	}
	return place, tried, invalid
}

// numbered returns the entries of a list with a number, 0 for those without; nil if there are
// none.
func numbered(list []*entry, n int) (found []*entry) {
	for _, e := range list {
		if e.N == n {
			found = append(found, e)
		}
	}
	return found
}
