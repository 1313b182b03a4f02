package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
)

// keyColumns are the columns that keys and Authenticate read, in this order.
const keyColumns = `k.id, k.name, k.scope, k.prefix, k.team, k.created_by, coalesce(u.email, ''), k.used, k.created`

const keysWithUsers = ` FROM api_keys k LEFT JOIN users u ON u.tenant = k.tenant AND u.id = k.created_by `

// keyRow holds the columns of a key that is read.
type keyRow struct {
	id, name, scope, prefix, team, createdBy, email []byte
	used, created                                   int64
}

func (r *keyRow) into() []any {
	return []any{&r.id, &r.name, &r.scope, &r.prefix, &r.team, &r.createdBy, &r.email, &r.used, &r.created}
}

// key returns the key of a row, with a use that is not written yet.
func (r *keyRow) key(s *Store, tenant int32) store.Key {
	id := string(r.id)
	return store.Key{ID: id, Name: string(r.name), Scope: store.KeyScope(r.scope), Prefix: string(r.prefix), TeamID: string(r.team),
		CreatedBy: string(r.createdBy), CreatedByEmail: string(r.email), LastUsedAt: s.lastUsed(tenant, id, timeOf(r.used)), CreatedAt: timeOf(r.created)}
}

// keys returns the keys that a condition selects.
func (d *data) keys(condition string, args ...any) ([]store.Key, error) {
	list := []store.Key{}
	var r keyRow
	err := d.each(r.into(), func() error {
		list = append(list, r.key(d.s, d.n))
		return nil
	}, `SELECT `+keyColumns+keysWithUsers+`WHERE k.tenant = $1 AND `+condition, append([]any{d.n}, args...)...)
	return list, err
}

// key returns one key, or NotFound.
func (d *data) key(id string) (store.Key, error) {
	list, err := d.keys(`k.id = $2`, []byte(id))
	if err != nil || len(list) == 0 {
		if err == nil {
			err = store.Missing("API key")
		}
		return store.Key{}, err
	}
	return list[0], nil
}

// Authenticate finds the key with a digest, and its limits, with one query.
func (s *Store) Authenticate(ctx context.Context, digest store.KeyDigest) (cred store.Credential, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var r keyRow
		var number int32
		var tenant, team []byte
		var members int
		into := append(r.into(), &number, &tenant, &team, &members)
		ok, err := found(tx.QueryRow(ctx, `SELECT `+keyColumns+`, k.tenant, t.id, m.doc, (SELECT count(*) FROM members n WHERE n.tenant = k.tenant AND n.team = k.team)
			FROM api_keys k JOIN tenants t ON t.number = k.tenant JOIN users u ON u.tenant = k.tenant AND u.id = k.created_by AND `+withAccess+`
			LEFT JOIN teams m ON m.tenant = k.tenant AND m.id = k.team
			WHERE k.digest = $1 AND (k.team = '' OR m.id IS NOT NULL)`, digest[:]), into...)
		if err == nil && !ok {
			err = store.Errorf(store.Unauthorized, "invalid API key")
		}
		if err != nil {
			return err
		}
		s.rememberNumber(string(tenant), number)
		cred = store.Credential{TenantID: string(tenant), Key: r.key(s, number)}
		if team != nil {
			cred.Team = &store.Team{}
			if err := parse(team, cred.Team); err != nil {
				return err
			}
			cred.Team.MemberCount = members
		}
		return nil
	})
	if err != nil {
		return store.Credential{}, err
	}
	return cred, nil
}

// unlimitedKeyWorks reports whether an unlimited key other than the given one works.
func (d *data) unlimitedKeyWorks(except string) (bool, error) {
	return d.exists(`SELECT 1 FROM api_keys k JOIN users u ON u.tenant = k.tenant AND u.id = k.created_by AND `+withAccess+`
		WHERE k.tenant = $1 AND k.scope = 'api' AND k.team = '' AND k.id <> $2 LIMIT 1`, d.n, []byte(except))
}

// ListKeys returns the keys that pass the filter, newest first.
func (t *tenant) ListKeys(ctx context.Context, f store.KeyFilter, page store.Page) (list []store.Key, total int, err error) {
	err = t.read(ctx, func(d *data) error {
		where, args := `($2 = ''::bytea OR k.scope = $2)`, []any{[]byte(f.Scope)}
		if _, err := d.one([]any{&total}, `SELECT count(*) FROM api_keys k WHERE k.tenant = $1 AND `+where, d.n, args[0]); err != nil {
			return err
		}
		if page.After.ID != "" {
			args = append(args, []byte(page.After.ID))
			where += ` AND k.id < $3`
		}
		args = append(args, limitOf(page), max(page.Offset, 0))
		list, err = d.keys(where+fmt.Sprintf(` ORDER BY k.id DESC LIMIT $%d OFFSET $%d`, len(args), len(args)+1), args...)
		return err
	})
	return list, total, err
}

// GetKey returns one key.
func (t *tenant) GetKey(ctx context.Context, id string) (out store.Key, err error) {
	err = t.read(ctx, func(d *data) error {
		out, err = d.key(id)
		return err
	})
	return out, err
}

// CreateKey stores the digest of a new key.
func (t *tenant) CreateKey(ctx context.Context, in store.KeyCreate) (out store.Key, err error) {
	err = t.create(ctx, func() any { return out }, func(d *data) error {
		out, err = d.createKey(in)
		return err
	})
	return out, err
}

func (d *data) createKey(in store.KeyCreate) (k store.Key, err error) {
	u, known, err := d.user(in.CreatedBy)
	switch {
	case err != nil:
		return k, err
	case !known || u.Status == store.UserDeleted:
		return k, store.FieldError(store.Invalid, "unknown user", "userId", "is not a user of this tenant")
	case u.Status == store.UserDeactivated:
		return k, store.FieldError(store.Invalid, "user is deactivated", "userId", "is deactivated")
	}
	if in.TeamID != "" {
		known, err := d.exists(`SELECT 1 FROM teams WHERE tenant = $1 AND id = $2`, d.n, []byte(in.TeamID))
		if err == nil && !known {
			err = store.FieldError(store.Invalid, "unknown team", "teamId", "is not a team of this tenant")
		}
		if err != nil {
			return k, err
		}
	}
	// In any tenant.
	taken, err := d.exists(`SELECT 1 FROM api_keys WHERE digest = $1`, in.Digest[:])
	if err == nil && taken {
		err = store.FieldError(store.Conflict, "API key already exists", "key", "already exists")
	}
	if err != nil {
		return k, err
	}
	now := d.s.now()
	k = store.Key{ID: d.s.ids.New(store.PrefixKey, now), Name: in.Name, Scope: in.Scope, Prefix: in.Prefix, TeamID: in.TeamID,
		CreatedBy: in.CreatedBy, CreatedByEmail: u.Email, CreatedAt: now}
	d.exec(`INSERT INTO api_keys (tenant, id, digest, name, scope, prefix, team, created_by, created) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		d.n, []byte(k.ID), in.Digest[:], []byte(k.Name), []byte(k.Scope), []byte(k.Prefix), []byte(k.TeamID), []byte(k.CreatedBy), now.UnixNano())
	return k, d.change(nil, k.Object(), false)
}

// DeleteKey removes a key.
func (t *tenant) DeleteKey(ctx context.Context, id string) error {
	return t.write(ctx, func(d *data) error {
		k, err := d.key(id)
		if err != nil {
			return err
		}
		if err := store.CheckMatch(ctx, k.Object()); err != nil {
			return err
		}
		if k.Unlimited() {
			u, known, err := d.user(k.CreatedBy)
			if err != nil {
				return err
			}
			others, err := d.unlimitedKeyWorks(id)
			if err == nil && known && u.hasAccess() && !others {
				err = store.FieldError(store.Invalid, "the last working API key of the tenant that no team limits cannot be deleted",
					"id", "is the last of its kind; create another key of scope api first, without a team")
			}
			if err != nil {
				return err
			}
		}
		return d.deleteKey(&k)
	})
}

func (d *data) deleteKey(k *store.Key) error {
	d.exec(`DELETE FROM api_keys WHERE tenant = $1 AND id = $2`, d.n, []byte(k.ID))
	return d.change(k.Object(), nil, false)
}

// usedKey identifies a key of any tenant.
type usedKey struct {
	tenant int32
	key    string
}

// lastUsed returns the newest use of a key, including one that is not written yet.
func (s *Store) lastUsed(tenant int32, key string, written time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.used[usedKey{tenant, key}]; at.After(written) {
		return at
	}
	return written
}

// maxUsed bounds the buffered uses while the engine is unavailable.
const maxUsed = 100_000

// RecordKeyUse records the use of a key. The tenant's number is cached, because the
// key was found in the tenant.
func (t *tenant) RecordKeyUse(id string, at time.Time) {
	t.s.mu.Lock()
	defer t.s.mu.Unlock()
	n, known := t.s.numbers[t.id]
	if k := (usedKey{n, id}); known && at.After(t.s.used[k]) && len(t.s.used) < maxUsed {
		t.s.used[k] = at.UTC()
	}
}

// flushUsed writes the buffered uses of keys.
func (s *Store) flushUsed(ctx context.Context) error {
	s.mu.Lock()
	batch := make(map[usedKey]time.Time, len(s.used))
	var tenants, ats []int64
	var ids [][]byte
	for k, at := range s.used {
		batch[k] = at
		tenants, ids, ats = append(tenants, int64(k.tenant)), append(ids, []byte(k.key)), append(ats, at.UnixNano())
	}
	s.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	err := s.tries(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE api_keys k SET used = v.at FROM unnest($1::bigint[], $2::bytea[], $3::bigint[]) AS v (tenant, id, at)
			WHERE k.tenant = v.tenant AND k.id = v.id AND k.used < v.at`, tenants, ids, ats)
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, at := range batch {
		if s.used[k].Equal(at) {
			delete(s.used, k)
		}
	}
	return nil
}
