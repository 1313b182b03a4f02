package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"svc/store"
	"svc/store/record"
)

// credentialRows are the rows that decide about a key, in one query: the row of its digest
// has the ids of the tenant and of the key, and the key has those of its user and its team.
// Each row is read by its whole key in a subquery: a planner without statistics would join
// all keys, or all users, of the tenant.
const credentialRows = `WITH
	d AS MATERIALIZED (SELECT value, position('\000'::bytea IN value) AS zero FROM records WHERE tenant = 0 AND bucket = 'digests' AND key = $1),
	t AS MATERIALIZED (SELECT number, id, substring(d.value FROM d.zero + 1) AS key FROM d JOIN tenants ON id = substring(d.value FROM 1 FOR d.zero - 1)),
	k AS MATERIALIZED (SELECT t.*, (SELECT value FROM records WHERE tenant = t.number AND bucket = 'keys' AND key = t.key) AS value FROM t),
	j AS MATERIALIZED (SELECT k.*, convert_from(value, 'UTF8')::json AS doc FROM k WHERE value IS NOT NULL)
	SELECT number, id, value,
	(SELECT value FROM records WHERE tenant = j.number AND bucket = 'users' AND key = convert_to(j.doc->>'CreatedBy', 'UTF8')),
	(SELECT value FROM records WHERE tenant = j.number AND bucket = 'teams' AND key = convert_to(j.doc->>'TeamID', 'UTF8')),
	(SELECT value FROM records WHERE tenant = j.number AND bucket = 'key_used' AND key = j.key) FROM j`

// Authenticate finds the key with a digest, and its limits, with one query.
func (s *Store) Authenticate(ctx context.Context, digest store.KeyDigest) (cred store.Credential, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var number int32
		var id, key, user, team, used []byte
		ok, err := found(tx.QueryRow(ctx, credentialRows, digest[:]), &number, &id, &key, &user, &team, &used)
		if err == nil && !ok {
			err = record.ErrRefused
		}
		if err != nil {
			return err
		}
		s.rememberNumber(string(id), number)
		cred, err = s.tenant(string(id)).Credential(digest, key, user, team, used)
		return err
	})
	return cred, err
}

// noteUses writes uses of keys that exist. It does not lock their tenants, but their rows, so
// that none of the keys is deleted before the commit.
const noteUses = `INSERT INTO records (tenant, bucket, key, value)
	SELECT t.number, 'key_used', v.key, v.value FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) AS v (tenant, key, value)
	JOIN tenants t ON t.id = v.tenant JOIN records k ON k.tenant = t.number AND k.bucket = 'keys' AND k.key = v.key FOR SHARE OF k
	ON CONFLICT (tenant, bucket, key) DO UPDATE SET value = excluded.value WHERE records.value < excluded.value`

// flushUsed writes the buffered uses of keys that still exist.
func (s *Store) flushUsed(ctx context.Context) error {
	return s.uses.Flush(func(batch map[record.UsedKey][]byte) error {
		var tenants, keys, values [][]byte
		for k, value := range batch {
			tenants, keys, values = append(tenants, []byte(k.Tenant)), append(keys, []byte(k.Key)), append(values, value)
		}
		return s.tries(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, noteUses, tenants, keys, values)
			return err
		})
	})
}
