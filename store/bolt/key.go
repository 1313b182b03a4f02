package bolt

import (
	"context"
	"crypto/subtle"
	"fmt"
	"maps"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"svc/store"
)

// keyRecord is a key as it is stored: with its digest, never its secret.
type keyRecord struct {
	store.Key
	Digest []byte
}

// usedKey identifies a key of a tenant in the buffer of key uses.
type usedKey struct{ tenant, key string }

// Authenticate finds the key with a digest, and its limits.
func (s *Store) Authenticate(ctx context.Context, digest store.KeyDigest) (cred store.Credential, err error) {
	refused := store.Errorf(store.Unauthorized, "invalid API key")
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		tenantID, keyID, ok := strings.Cut(string(tx.Bucket(bucketDigests).Get(digest[:])), "\x00")
		if !ok {
			return refused
		}
		d, err := (&tenant{s: s, id: tenantID}).data(tx)
		if err != nil {
			return refused
		}
		key, ok, err := getJSON[keyRecord](d.in(inKeys), keyID)
		if err != nil {
			return err
		}
		if !ok || subtle.ConstantTimeCompare(key.Digest, digest[:]) != 1 {
			return refused
		}
		user, ok, err := getJSON[userRecord](d.in(inUsers), key.CreatedBy)
		if err != nil {
			return err
		}
		if !ok || !user.hasAccess() {
			return refused
		}
		cred = store.Credential{TenantID: tenantID, Key: key.Key}
		cred.Key.CreatedByEmail = user.Email
		cred.Key.LastUsedAt = s.lastUsed(d, tenantID, keyID)
		if key.TeamID == "" {
			return nil
		}
		team, ok, err := getJSON[store.Team](d.in(inTeams), key.TeamID)
		if err == nil && !ok {
			err = refused
		}
		cred.Team = &team
		return err
	})
	if err != nil {
		return store.Credential{}, err
	}
	return cred, nil
}

// ListKeys returns the keys that pass the filter, newest first.
func (t *tenant) ListKeys(ctx context.Context, f store.KeyFilter, page store.Page) (list []store.Key, total int, err error) {
	err = t.view(ctx, func(d data) error {
		var keep func(*keyRecord) bool
		if f.Scope != "" {
			keep = func(k *keyRecord) bool { return k.Scope == f.Scope }
		}
		recs, n, err := newest(d.in(inKeys), page, keep)
		total, list = n, make([]store.Key, len(recs))
		for i := range recs {
			if list[i], err = t.keyOf(d, recs[i]); err != nil {
				return err
			}
		}
		return err
	})
	return list, total, err
}

// GetKey returns one key.
func (t *tenant) GetKey(ctx context.Context, id string) (key store.Key, err error) {
	err = t.view(ctx, func(d data) error {
		rec, err := findJSON[keyRecord](d.in(inKeys), "API key", id)
		if err != nil {
			return err
		}
		key, err = t.keyOf(d, rec)
		return err
	})
	return key, err
}

func (t *tenant) keyOf(d data, rec keyRecord) (store.Key, error) {
	user, _, err := getJSON[userRecord](d.in(inUsers), rec.CreatedBy)
	rec.CreatedByEmail = user.Email
	rec.LastUsedAt = t.s.lastUsed(d, t.id, rec.ID)
	return rec.Key, err
}

// CreateKey stores the digest of a new key.
func (t *tenant) CreateKey(ctx context.Context, in store.KeyCreate) (key store.Key, err error) {
	err = t.create(ctx, func() any { return key }, func(tx *bbolt.Tx, d data) error {
		key, err = t.createKey(ctx, tx, d, in)
		return err
	})
	return key, err
}

func (t *tenant) createKey(ctx context.Context, tx *bbolt.Tx, d data, in store.KeyCreate) (store.Key, error) {
	user, ok, err := getJSON[userRecord](d.in(inUsers), in.CreatedBy)
	switch {
	case err != nil:
		return store.Key{}, err
	case !ok || user.Status == store.UserDeleted:
		return store.Key{}, store.FieldError(store.Invalid, "unknown user", "userId", "is not a user of this tenant")
	case user.Status == store.UserDeactivated:
		return store.Key{}, store.FieldError(store.Invalid, "user is deactivated", "userId", "is deactivated")
	}
	if in.TeamID != "" && d.in(inTeams).Get([]byte(in.TeamID)) == nil {
		return store.Key{}, store.FieldError(store.Invalid, "unknown team", "teamId", "is not a team of this tenant")
	}
	digests := tx.Bucket(bucketDigests)
	if digests.Get(in.Digest[:]) != nil {
		return store.Key{}, store.FieldError(store.Conflict, "API key already exists", "key", "already exists")
	}
	now := t.s.now().UTC()
	rec := keyRecord{Digest: in.Digest[:], Key: store.Key{
		ID: t.s.ids.New(store.PrefixKey, now), Name: in.Name, Scope: in.Scope, Prefix: in.Prefix,
		TeamID: in.TeamID, CreatedBy: in.CreatedBy, CreatedAt: now,
	}}
	if err := digests.Put(in.Digest[:], joined(t.id, rec.ID)); err != nil {
		return store.Key{}, err
	}
	if err := putJSON(d.in(inKeys), rec.ID, rec); err != nil {
		return store.Key{}, err
	}
	rec.CreatedByEmail = user.Email
	return rec.Key, t.changed(ctx, d, nil, rec.Object(), false)
}

// DeleteKey removes a key.
func (t *tenant) DeleteKey(ctx context.Context, id string) error {
	return t.update(ctx, func(tx *bbolt.Tx, d data) error {
		rec, err := findJSON[keyRecord](d.in(inKeys), "API key", id)
		if err != nil {
			return err
		}
		if err := keepOneUnlimited(d, rec); err != nil {
			return err
		}
		return t.deleteKey(ctx, tx, d, rec)
	})
}

// keepOneUnlimited rejects the deletion of the last working unlimited key.
func keepOneUnlimited(d data, rec keyRecord) error {
	if !rec.Unlimited() {
		return nil
	}
	works, err := keyWorks(d, rec)
	if err != nil || !works {
		return err
	}
	another, err := unlimitedKeyWorks(d, rec.ID)
	if err != nil || another {
		return err
	}
	return store.FieldError(store.Invalid, "the last working API key of the tenant that no team limits cannot be deleted",
		"id", "is the last of its kind; create another key of scope api first, without a team")
}

// unlimitedKeyWorks reports whether an unlimited key of the tenant other than the
// given one works.
func unlimitedKeyWorks(d data, except string) (bool, error) {
	keys, _, err := newest(d.in(inKeys), store.Page{}, func(k *keyRecord) bool { return k.Unlimited() && k.ID != except })
	for i := range keys {
		if works, err := keyWorks(d, keys[i]); err != nil || works {
			return works, err
		}
	}
	return false, err
}

// keyWorks reports whether the user of a key may still use it.
func keyWorks(d data, rec keyRecord) (bool, error) {
	user, ok, err := getJSON[userRecord](d.in(inUsers), rec.CreatedBy)
	return ok && user.hasAccess(), err
}

func (t *tenant) deleteKey(ctx context.Context, tx *bbolt.Tx, d data, rec keyRecord) error {
	if err := tx.Bucket(bucketDigests).Delete(rec.Digest); err != nil {
		return err
	}
	if err := d.in(inKeyUsed).Delete([]byte(rec.ID)); err != nil {
		return err
	}
	if err := d.in(inKeys).Delete([]byte(rec.ID)); err != nil {
		return err
	}
	return t.changed(ctx, d, rec.Object(), nil, false)
}

// eachKeyOf calls fn with every key that was created for a user.
func eachKeyOf(d data, userID string, fn func(keyRecord) error) error {
	keys, _, err := newest(d.in(inKeys), store.Page{}, func(k *keyRecord) bool { return k.CreatedBy == userID })
	for i := 0; err == nil && i < len(keys); i++ {
		err = fn(keys[i])
	}
	return err
}

// maxUsed bounds the buffer of key uses. Uses of further keys are recorded only
// after the next flush.
const maxUsed = 100_000

// RecordKeyUse records the use of a key.
func (t *tenant) RecordKeyUse(id string, at time.Time) {
	k := usedKey{t.id, id}
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	if old, ok := t.s.used[k]; ok && !at.After(old) || !ok && len(t.s.used) >= maxUsed {
		return
	}
	t.s.used[k] = at
}

// lastUsed returns the newest use of a key, written or buffered.
func (s *Store) lastUsed(d data, tenantID, keyID string) time.Time {
	at := timeOf(number(d.in(inKeyUsed).Get([]byte(keyID))))
	s.mu.Lock()
	defer s.mu.Unlock()
	if u, ok := s.used[usedKey{tenantID, keyID}]; ok && u.After(at) {
		return u.UTC()
	}
	return at
}

// flusher writes the buffer of key uses periodically, until the store closes.
func (s *Store) flusher(every time.Duration) {
	defer s.work.Done()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
			if err := s.flushUsed(); err != nil {
				s.log.Error("write times of use of API keys", "error", err)
			}
		}
	}
}

// flushUsed writes the buffer of key uses. Uses that it could not write stay in the
// buffer.
func (s *Store) flushUsed() error {
	batch := s.usedSoFar()
	if len(batch) == 0 {
		return nil
	}
	err := s.commit(func(tx *bbolt.Tx) error {
		for k, at := range batch {
			d, err := (&tenant{s: s, id: k.tenant}).data(tx)
			if err != nil || d.in(inKeys).Get([]byte(k.key)) == nil {
				continue // the key was deleted since
			}
			if err := d.in(inKeyUsed).Put([]byte(k.key), bytes8(uint64(at.UnixNano()))); err != nil {
				return fmt.Errorf("note use of key: %w", err)
			}
		}
		return nil
	})
	if err == nil {
		s.usedWritten(batch)
	}
	return err
}

// usedSoFar returns a copy of the buffer of key uses.
func (s *Store) usedSoFar() map[usedKey]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.used)
}

// usedWritten removes written uses from the buffer. A key that was used again
// meanwhile stays in it.
func (s *Store) usedWritten(batch map[usedKey]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, at := range batch {
		if s.used[k].Equal(at) {
			delete(s.used, k)
		}
	}
}
