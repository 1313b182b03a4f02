package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"svc/store/migrations"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var files embed.FS

// schema are the migrations of this package, in order.
var schema = migrations.MustRead(files)

// migrateTimeout bounds the migrations of a database, and the wait for another process
// that makes them.
const migrateTimeout = 10 * time.Minute

// migrate brings the database to the newest of the migrations and returns its version.
// Of several processes that start at once one does; the others wait for the row that
// it has locked.
func (s *Store) migrate(ctx context.Context, list []migrations.Migration) (version int, err error) {
	late, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	newest := list[len(list)-1]
	version, oldest, err := schemaOf(late, s.pool)
	if err == nil && version < newest.Version {
		for {
			version, oldest, err = applyAll(late, s.pool, list)
			// Two processes that make the first table at once: one is refused.
			if c := code(err); c != uniqueViolation && c != duplicateTable && c != duplicateObject && c != serializationFailure && c != deadlockDetected {
				break
			}
		}
	}
	switch {
	case err != nil:
		return 0, s.wrapError(late, err)
	case oldest > newest.Version:
		return 0, fmt.Errorf("the database %s has schema %d, which programs use that know at least schema %d; this one knows %d: start a newer svc", s.where, version, oldest, newest.Version)
	}
	return version, nil
}

// schemaOf is the version of a database, 0 of one without a schema.
func schemaOf(ctx context.Context, from interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (version, oldest int, err error) {
	err = from.QueryRow(ctx, `SELECT version, oldest FROM svc_schema`).Scan(&version, &oldest)
	if code(err) == undefinedTable || errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return version, oldest, err
}

// applyAll makes what is missing of migrations in one transaction.
func applyAll(ctx context.Context, pool *pgxpool.Pool, list []migrations.Migration) (version, oldest int, err error) {
	const table = `CREATE TABLE IF NOT EXISTS svc_schema (one boolean PRIMARY KEY CHECK (one), version int NOT NULL, oldest int NOT NULL)`
	if _, err := pool.Exec(ctx, table); err != nil {
		return 0, 0, err
	}
	if _, err := pool.Exec(ctx, `INSERT INTO svc_schema VALUES (true, 0, 1) ON CONFLICT DO NOTHING`); err != nil {
		return 0, 0, err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, set := range []string{`SET LOCAL statement_timeout = 0`, `SET LOCAL lock_timeout = 0`} {
			if _, err := tx.Exec(ctx, set); err != nil {
				return err
			}
		}
		if err := tx.QueryRow(ctx, `SELECT version, oldest FROM svc_schema FOR UPDATE`).Scan(&version, &oldest); err != nil {
			return err
		}
		for _, m := range list {
			if m.Version <= version {
				continue
			}
			// Several statements in one message: without parameters.
			if _, err := tx.Conn().PgConn().Exec(ctx, m.SQL).ReadAll(); err != nil {
				return fmt.Errorf("migration %d: %w", m.Version, err)
			}
			version, oldest = m.Version, max(oldest, m.Oldest)
		}
		_, err := tx.Exec(ctx, `UPDATE svc_schema SET version = $1, oldest = $2`, version, oldest)
		return err
	})
	return version, oldest, err
}
