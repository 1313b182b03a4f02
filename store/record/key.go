package record

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"svc/store"
)

// keyRecord is a key as it is stored: with its digest, never its secret.
type keyRecord struct {
	store.Key
	Digest []byte
}

// ErrRefused is the error of Authenticate for a key that does not work.
var ErrRefused = store.Errorf(store.Unauthorized, "invalid API key")

// SplitDigest returns the tenant and the key of a row of the bucket [KeyDigests].
func SplitDigest(value []byte) (tenant, key string, ok bool) {
	return strings.Cut(string(value), "\x00")
}

// Authenticate returns the credential of a key of the tenant, if the key has the digest.
func (t *Tenant) Authenticate(tx Tx, keyID string, digest store.KeyDigest) (store.Credential, error) {
	k, known, err := get[keyRecord](tx, KeyRows, []byte(keyID))
	if err == nil && !known {
		err = ErrRefused
	}
	if err != nil {
		return store.Credential{}, err
	}
	return t.withOwner(tx, &k, digest)
}

// withOwner returns the credential of a key, if it has the digest and its owner has access.
func (t *Tenant) withOwner(tx Tx, k *keyRecord, digest store.KeyDigest) (store.Credential, error) {
	user, err := tx.Get(UserRows, []byte(k.CreatedBy))
	if err != nil {
		return store.Credential{}, err
	}
	user = slices.Clone(user)
	var team []byte
	if k.TeamID != "" {
		if team, err = tx.Get(TeamRows, []byte(k.TeamID)); err != nil {
			return store.Credential{}, err
		}
	}
	team = slices.Clone(team)
	used, err := tx.Get(KeyUsed, []byte(k.ID))
	if err != nil {
		return store.Credential{}, err
	}
	return t.credential(digest, k, user, team, used)
}

// Credential returns the credential of a key of the tenant, given the digest of its secret
// and the rows of the key, of its user, of its team, and of its last use; nil for a row
// that does not exist. It has the rules of [store.Records.Authenticate]; an engine may read
// the rows with a query of its own.
func (t *Tenant) Credential(digest store.KeyDigest, key, user, team, used []byte) (cred store.Credential, err error) {
	var k keyRecord
	if err := decode(nil, key, &k); err != nil {
		return cred, err
	}
	return t.credential(digest, &k, user, team, used)
}

func (t *Tenant) credential(digest store.KeyDigest, k *keyRecord, user, team, used []byte) (cred store.Credential, err error) {
	var u userRecord
	if subtle.ConstantTimeCompare(k.Digest, digest[:]) != 1 || user == nil {
		return cred, ErrRefused
	}
	if err := decode(nil, user, &u); err != nil {
		return cred, err
	}
	if !u.hasAccess() || k.TeamID != "" && team == nil {
		return cred, ErrRefused
	}
	cred = store.Credential{TenantID: t.id, Key: k.Key}
	cred.Key.CreatedByEmail = u.Email
	cred.Key.LastUsedAt = t.lastUsed(k.ID, used)
	if k.TeamID == "" {
		return cred, nil
	}
	cred.Team = &store.Team{}
	if err := decode(nil, team, cred.Team); err != nil {
		return store.Credential{}, err
	}
	return cred, nil
}

// shown returns keys as clients see them.
func (t *Tenant) shown(tx Tx, records []keyRecord) ([]store.Key, error) {
	list := make([]store.Key, len(records))
	users, ids := make([]string, len(records)), make([][]byte, len(records))
	for i := range records {
		list[i], users[i], ids[i] = records[i].Key, records[i].CreatedBy, []byte(records[i].ID)
	}
	emails, err := emailsOf(tx, users)
	if err != nil {
		return nil, err
	}
	tags, err := tx.Many(approvalTags, ids)
	for i := range tags {
		seen, err := keyTags(ids[i], tags[i], t.e.Now())
		if err != nil {
			return nil, err
		}
		list[i].SessionKeys = len(seen)
	}
	if err != nil {
		return nil, err
	}
	used, err := tx.Many(KeyUsed, ids)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].CreatedByEmail = emails[list[i].CreatedBy]
		list[i].LastUsedAt = t.lastUsed(list[i].ID, used[i])
	}
	return list, nil
}

// ListKeys returns the keys that pass the filter, newest first.
func (t *Tenant) ListKeys(ctx context.Context, f store.KeyFilter, page store.Page) (list []store.Key, total int, err error) {
	var having [][]byte
	if f.Scope != "" {
		having = append(having, field("Scope", f.Scope)) // rows of keys are flat
	}
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		records, n, err := pageOf[keyRecord](tx, KeyRows, page, nil, having...)
		if err == nil {
			total = n
			list, err = t.shown(tx, records)
		}
		return err
	})
	return list, total, err
}

// keyByID returns one key, or NotFound.
func keyByID(tx Tx, id string) (keyRecord, error) {
	k, known, err := get[keyRecord](tx, KeyRows, []byte(id))
	if err == nil && !known {
		err = store.Missing("API key")
	}
	return k, err
}

// GetKey returns one key.
func (t *Tenant) GetKey(ctx context.Context, id string) (key store.Key, err error) {
	err = t.e.View(ctx, t.id, func(tx Tx) error {
		k, err := keyByID(tx, id)
		if err != nil {
			return err
		}
		list, err := t.shown(tx, []keyRecord{k})
		if err == nil {
			key = list[0]
		}
		return err
	})
	return key, err
}

// CreateKey stores the digest of a new key.
func (t *Tenant) CreateKey(ctx context.Context, in store.KeyCreate) (key store.Key, err error) {
	err = t.create(ctx, func() any { return key }, func(tx Tx) error {
		key, err = t.NewKey(ctx, tx, in)
		return err
	})
	return key, err
}

// NewKey is CreateKey in a transaction.
func (t *Tenant) NewKey(ctx context.Context, tx Tx, in store.KeyCreate) (store.Key, error) {
	u, known, err := get[userRecord](tx, UserRows, []byte(in.CreatedBy))
	switch {
	case err != nil:
		return store.Key{}, err
	case !known || u.Status == store.UserDeleted:
		return store.Key{}, store.FieldError(store.Invalid, "unknown user", "userId", "is not a user of this tenant")
	case u.Status == store.UserDeactivated:
		return store.Key{}, store.FieldError(store.Invalid, "user is deactivated", "userId", "is deactivated")
	}
	if err := knownTeam(tx, in.TeamID); err != nil {
		return store.Key{}, err
	}
	taken, err := tx.Get(KeyDigests, in.Digest[:]) // in any tenant
	if err == nil && taken != nil {
		err = store.FieldError(store.Conflict, "API key already exists", "key", "already exists")
	}
	if err != nil {
		return store.Key{}, err
	}
	now := t.e.Now()
	k := keyRecord{Digest: in.Digest[:], Key: store.Key{ID: t.e.NewID(store.PrefixKey, now), Name: in.Name, Scope: in.Scope, Prefix: in.Prefix,
		TeamID: in.TeamID, CreatedBy: in.CreatedBy, CreatedAt: now}}
	if err := t.putKey(tx, k); err != nil {
		return store.Key{}, err
	}
	k.CreatedByEmail = u.Email
	return k.Key, t.Changed(ctx, tx, nil, k.Object(), false)
}

// putKey writes a new key.
func (t *Tenant) putKey(tx Tx, k keyRecord) error {
	if err := tx.Put(KeyDigests, k.Digest, joined(t.id, k.ID)); err != nil {
		return err
	}
	return put(tx, KeyRows, []byte(k.ID), k)
}

// CreateOperatorKey creates an unlimited key for an operator.
func (t *Tenant) CreateOperatorKey(ctx context.Context, in store.KeyCreate) (key store.Key, err error) {
	err = t.e.Update(ctx, t.id, func(tx Tx) error {
		key, err = t.newOperatorKey(ctx, tx, in)
		return err
	})
	return key, err
}

// newOperatorKey creates an unlimited key for an operator. Its user is the tenant's first
// user, or another owner if the identity provider has deactivated or deleted that user.
func (t *Tenant) newOperatorKey(ctx context.Context, tx Tx, in store.KeyCreate) (store.Key, error) {
	owner, known, err := get[userRecord](tx, UserRows, []byte(store.DefaultAdminID))
	if err != nil {
		return store.Key{}, err
	}
	if !known || !owner.hasAccess() {
		now := t.e.Now()
		id := store.DefaultAdminID
		if known {
			id = t.e.NewID(store.PrefixUser, now)
		}
		owner = newOwner(id, now)
		if err := putUser(tx, owner, ""); err != nil {
			return store.Key{}, err
		}
	}
	in.Scope, in.TeamID, in.CreatedBy = store.ScopeAPI, "", owner.ID
	return t.NewKey(ctx, tx, in)
}

// DeleteKey removes a key.
func (t *Tenant) DeleteKey(ctx context.Context, id string) error {
	return t.e.Update(ctx, t.id, func(tx Tx) error {
		k, err := keyByID(tx, id)
		if err != nil {
			return err
		}
		if err := store.CheckMatch(ctx, k.Object()); err != nil {
			return err
		}
		if err := keepOneUnlimited(tx, k); err != nil {
			return err
		}
		return t.deleteKey(ctx, tx, k)
	})
}

// keepOneUnlimited rejects the deletion of the last working unlimited key.
func keepOneUnlimited(tx Tx, k keyRecord) error {
	if !k.Unlimited() {
		return nil
	}
	u, known, err := get[userRecord](tx, UserRows, []byte(k.CreatedBy))
	if err != nil || !known || !u.hasAccess() {
		return err
	}
	another, err := unlimitedKeyWorks(tx, k.ID)
	if err == nil && !another {
		err = store.FieldError(store.Invalid, "the last working API key of the tenant that no team limits cannot be deleted",
			"id", "is the last of its kind; create another key of scope api first, without a team")
	}
	return err
}

// unlimitedKeyWorks reports whether an unlimited key other than the given one works.
func unlimitedKeyWorks(tx Tx, except string) (bool, error) {
	asked := map[string]bool{}
	var users []string
	err := each(tx, KeyRows, Range{Having: [][]byte{field("TeamID", "")}}, func(k *keyRecord) (bool, error) {
		if k.Unlimited() && k.ID != except && !asked[k.CreatedBy] {
			asked[k.CreatedBy] = true
			users = append(users, k.CreatedBy)
		}
		return true, nil
	})
	if err != nil {
		return false, err
	}
	for _, id := range users {
		u, known, err := get[userRecord](tx, UserRows, []byte(id))
		if err != nil || known && u.hasAccess() {
			return err == nil, err
		}
	}
	return false, nil
}

func (t *Tenant) deleteKey(ctx context.Context, tx Tx, k keyRecord) error {
	if err := tx.Delete(KeyDigests, k.Digest); err != nil {
		return err
	}
	// The row of the key first: an engine that writes uses without the tenant's lock locks it.
	for _, bucket := range [...]string{KeyRows, KeyUsed, approvalTags} {
		if err := tx.Delete(bucket, []byte(k.ID)); err != nil {
			return err
		}
	}
	if err := endSessions(tx, k.ID); err != nil {
		return err
	}
	// Nobody can claim or use the approvals that a gateway has requested with the key.
	if err := LapseApprovals(tx, t.e.Now(), k.ID); err != nil {
		return err
	}
	return t.Changed(ctx, tx, k.Object(), nil, false)
}

// keysOf returns the keys of a user, newest first.
func keysOf(tx Tx, userID string) (list []keyRecord, err error) {
	err = each(tx, KeyRows, Range{Reverse: true, Having: [][]byte{field("CreatedBy", userID)}}, func(k *keyRecord) (bool, error) {
		if k.CreatedBy == userID {
			list = append(list, *k)
		}
		return true, nil
	})
	return list, err
}

// UsedKey identifies a key of any tenant.
type UsedKey struct{ Tenant, Key string }

// Uses buffers the times of use of keys until an engine writes them. The zero value is
// ready for use; it is safe for concurrent use.
type Uses struct {
	mu   sync.Mutex
	used map[UsedKey]time.Time
}

// maxUsed bounds the buffer. Uses of further keys are recorded only after the next write.
const maxUsed = 100_000

func (u *Uses) add(k UsedKey, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if old, known := u.used[k]; known && !at.After(old) || !known && len(u.used) >= maxUsed {
		return
	}
	if u.used == nil {
		u.used = map[UsedKey]time.Time{}
	}
	u.used[k] = at
}

func (u *Uses) last(k UsedKey) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.used[k]
}

// Flush calls write with the buffered uses: for each key the value of its row in the bucket
// [KeyUsed]. Uses that were not written, and those that are recorded meanwhile, stay in the
// buffer.
func (u *Uses) Flush(write func(map[UsedKey][]byte) error) error {
	u.mu.Lock()
	batch, values := make(map[UsedKey]time.Time, len(u.used)), make(map[UsedKey][]byte, len(u.used))
	for k, at := range u.used {
		batch[k] = at
		values[k] = binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano()))
	}
	u.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	if err := write(values); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for k, at := range batch {
		if u.used[k].Equal(at) {
			delete(u.used, k)
		}
	}
	return nil
}

// RecordKeyUse records the use of a key.
func (t *Tenant) RecordKeyUse(id string, at time.Time) { t.e.Uses().add(UsedKey{t.id, id}, at) }

// lastUsed returns the newest use of a key, written or buffered.
func (t *Tenant) lastUsed(id string, written []byte) (at time.Time) {
	if len(written) == 8 {
		at = timeOf(int64(binary.BigEndian.Uint64(written)))
	}
	if buffered := t.e.Uses().last(UsedKey{t.id, id}); buffered.After(at) {
		return buffered.UTC()
	}
	return at
}
