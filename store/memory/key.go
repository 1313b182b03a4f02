package memory

import (
	"context"
	"time"

	"svc/store"
)

// key is a key with the digest of its secret.
type key struct {
	store.Key
	digest store.KeyDigest
}

// keyPlace is where a key is stored.
type keyPlace struct{ tenant, key string }

func (d *tenantData) keyOut(k *key) store.Key {
	out := k.Key
	if u := d.users.get(k.CreatedBy); u != nil {
		out.CreatedByEmail = u.Email
	}
	return out
}

// works reports whether the user of a key may still use it.
func (d *tenantData) works(k *key) bool {
	u := d.users.get(k.CreatedBy)
	return u != nil && u.hasAccess()
}

// unlimitedKeyWorks reports whether an unlimited key other than the given one works.
func (d *tenantData) unlimitedKeyWorks(except string) bool {
	return len(d.keys.newest(func(k *key) bool { return k.Unlimited() && k.ID != except && d.works(k) })) > 0
}

// Authenticate finds the key with a digest, and its limits.
func (s *Store) Authenticate(ctx context.Context, digest store.KeyDigest) (cred store.Credential, err error) {
	refused := store.Errorf(store.Unauthorized, "invalid API key")
	err = s.read(ctx, func(e *engine) error {
		place, ok := e.digests[digest]
		if !ok {
			return refused
		}
		d := e.tenants.get(place.tenant)
		k := d.keys.get(place.key)
		if !d.works(k) {
			return refused
		}
		found := store.Credential{TenantID: place.tenant, Key: d.keyOut(k)}
		if k.TeamID != "" {
			m := d.teams.get(k.TeamID)
			if m == nil {
				return refused
			}
			limit := m.out()
			found.Team = &limit
		}
		cred = found
		return nil
	})
	return cred, err
}

// ListKeys returns the keys that pass the filter, newest first.
func (t *tenant) ListKeys(ctx context.Context, f store.KeyFilter, page store.Page) (list []store.Key, total int, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		list, total, err = pagedBehind(d.keys.newest(func(k *key) bool { return f.Scope == "" || k.Scope == f.Scope }), page,
			func(k *key) string { return k.ID }, d.keyOut)
		return err
	})
	return list, total, err
}

// GetKey returns one key.
func (t *tenant) GetKey(ctx context.Context, id string) (out store.Key, err error) {
	err = t.read(ctx, func(_ *engine, d *tenantData) error {
		k, err := d.keys.find("API key", id)
		if err == nil {
			out = d.keyOut(k)
		}
		return err
	})
	return out, err
}

// CreateKey stores the digest of a new key.
func (t *tenant) CreateKey(ctx context.Context, in store.KeyCreate) (out store.Key, err error) {
	err = t.create(ctx, func() any { return out }, func(e *engine, d *tenantData) error {
		out, err = e.createKey(ctx, d, in)
		return err
	})
	return out, err
}

// newDigest rejects the digest of an existing key of any tenant.
func (e *engine) newDigest(digest store.KeyDigest) error {
	if _, taken := e.digests[digest]; taken {
		return store.FieldError(store.Conflict, "API key already exists", "key", "already exists")
	}
	return nil
}

func (e *engine) createKey(ctx context.Context, d *tenantData, in store.KeyCreate) (store.Key, error) {
	u := d.users.get(in.CreatedBy)
	switch {
	case u == nil || u.Status == store.UserDeleted:
		return store.Key{}, store.FieldError(store.Invalid, "unknown user", "userId", "is not a user of this tenant")
	case u.Status == store.UserDeactivated:
		return store.Key{}, store.FieldError(store.Invalid, "user is deactivated", "userId", "is deactivated")
	case in.TeamID != "" && d.teams.get(in.TeamID) == nil:
		return store.Key{}, store.FieldError(store.Invalid, "unknown team", "teamId", "is not a team of this tenant")
	}
	if err := e.newDigest(in.Digest); err != nil {
		return store.Key{}, err
	}
	now := e.now()
	k := &key{digest: in.Digest, Key: store.Key{ID: e.ids.New(store.PrefixKey, now), Name: in.Name, Scope: in.Scope,
		Prefix: in.Prefix, TeamID: in.TeamID, CreatedBy: in.CreatedBy, CreatedAt: now}}
	d.keys.put(k.ID, k)
	e.digests[in.Digest] = keyPlace{d.info.ID, k.ID}
	e.changed(ctx, d, nil, k.Object(), false)
	return d.keyOut(k), nil
}

// DeleteKey removes a key.
func (t *tenant) DeleteKey(ctx context.Context, id string) error {
	return t.write(ctx, func(e *engine, d *tenantData) error {
		k, err := d.keys.find("API key", id)
		if err != nil {
			return err
		}
		if err := store.CheckMatch(ctx, k.Object()); err != nil {
			return err
		}
		if k.Unlimited() && d.works(k) && !d.unlimitedKeyWorks(id) {
			return store.FieldError(store.Invalid, "the last working API key of the tenant that no team limits cannot be deleted",
				"id", "is the last of its kind; create another key of scope api first, without a team")
		}
		e.deleteKey(ctx, d, k)
		return nil
	})
}

func (e *engine) deleteKey(ctx context.Context, d *tenantData, k *key) {
	delete(e.digests, k.digest)
	d.keys.delete(k.ID)
	e.changed(ctx, d, k.Object(), nil, false)
}

// RecordKeyUse records the use of a key.
func (t *tenant) RecordKeyUse(id string, at time.Time) {
	// An error here must not fail the request that used the key.
	_ = t.read(context.Background(), func(_ *engine, d *tenantData) error {
		if k := d.keys.get(id); k != nil && at.After(k.LastUsedAt) {
			k.LastUsedAt = at.UTC()
		}
		return nil
	})
}
