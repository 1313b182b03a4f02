package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc/store"
)

//go:embed migrations/*.sql
var files embed.FS

// schema are the embedded migrations, in order.
var schema = store.MustReadMigrations(files)

// SchemaVersion returns the schema version of this program.
func SchemaVersion() int { return schema[len(schema)-1].Version }

// migrateTimeout bounds the migrations of a database, and the wait for another process that
// runs them.
const migrateTimeout = 10 * time.Minute

// migrate brings the database to the newest schema version and returns it: an empty database
// always, an older schema if the options allow it. When several processes start concurrently
// one runs the migrations; the others wait for the row that it has locked.
func (s *Store) migrate(ctx context.Context, list []store.Migration) (version int, err error) {
	late, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	newest := list[len(list)-1]
	version, oldest, err := schemaOf(late, s.pool)
	from := version
	if err == nil && version < newest.Version {
		if from > 0 && !s.opts.Migrate {
			return 0, fmt.Errorf("the database %s has schema %d, and this program needs schema %d: start 'svc serve' of this version on it, which changes the schema", s.where, from, newest.Version)
		}
		if from > 0 {
			s.log.Info("the database has an older schema: it is changed; svc writes no copy of it", "database", s.where, "from", from, "to", newest.Version)
		}
		for try := 1; ; try++ {
			version, oldest, err = applyAll(late, s.pool, list)
			if try == maxMigrateTries || !migrateAgain(err) {
				break
			}
		}
	}
	switch {
	case exists(err):
		return 0, fmt.Errorf("the schema of svc cannot be created in %s: %w: that object was not created by svc; give svc an empty database of its own, or, where this is a backup of svc that was restored, restore the table svc_version too", s.where, err)
	case errors.Is(err, errUnreleased):
		return 0, fmt.Errorf("the database %s was %w", s.where, err)
	case err != nil:
		return 0, s.wrapError(late, err)
	case oldest > newest.Version:
		return 0, fmt.Errorf("the database %s has schema %d, which needs a program with at least schema %d; this program has schema %d: start a newer svc", s.where, version, oldest, newest.Version)
	}
	if from > 0 && version > from {
		s.log.Info("the schema of the database was changed", "database", s.where, "from", from, "to", version)
	}
	return version, nil
}

// maxMigrateTries bounds the tries of the migrations after conflicts with another process.
const maxMigrateTries = 20

// firstTable is an error of creating the table svc_version. Before it exists, no process can
// have locked its row.
type firstTable struct{ error }

func (e firstTable) Unwrap() error { return e.error }

// migrateAgain reports whether migrations failed because of a concurrent process. Of two
// that create the first table one gets an error. A later name conflict has another cause,
// because then the row is locked.
func migrateAgain(err error) bool {
	if c := code(err); c == serializationFailure || c == deadlockDetected {
		return true
	}
	var first firstTable
	return errors.As(err, &first) && exists(err)
}

// exists reports whether the engine rejected a CREATE because the name exists.
func exists(err error) bool {
	switch code(err) {
	case uniqueViolation, duplicateTable, duplicateObject, duplicateColumn, duplicateFunction:
		return true
	}
	return false
}

// errUnreleased is the error of a database of a build from before the first release, which
// had its version in the table svc_schema or svc_schema_version, or numbered the values of
// dimensions in the table rollup_words.
var errUnreleased = errors.New("written by a build of svc from before the first release, which this program cannot read: keep the database for that build, and give this one an empty database of its own")

// schemaOf returns the version of a database, 0 for one without a schema.
func schemaOf(ctx context.Context, from interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (version, oldest int, err error) {
	var unreleased bool
	err = from.QueryRow(ctx, `SELECT coalesce(to_regclass('svc_schema'), to_regclass('svc_schema_version'), to_regclass('rollup_words')) IS NOT NULL`).Scan(&unreleased)
	if unreleased {
		err = errUnreleased
	}
	if err != nil {
		return 0, 0, err
	}
	err = from.QueryRow(ctx, `SELECT version, oldest FROM svc_version`).Scan(&version, &oldest)
	if code(err) == undefinedTable || errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return version, oldest, err
}

// applyAll applies the missing migrations in one transaction.
func applyAll(ctx context.Context, pool *pgxpool.Pool, list []store.Migration) (version, oldest int, err error) {
	const table = `CREATE TABLE IF NOT EXISTS svc_version (one boolean PRIMARY KEY CHECK (one), version int NOT NULL, oldest int NOT NULL)`
	for _, first := range []string{table, `INSERT INTO svc_version VALUES (true, 0, 1) ON CONFLICT DO NOTHING`} {
		if _, err := pool.Exec(ctx, first); err != nil {
			return 0, 0, firstTable{err}
		}
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for _, set := range []string{`SET LOCAL statement_timeout = 0`, `SET LOCAL lock_timeout = 0`} {
			if _, err := tx.Exec(ctx, set); err != nil {
				return err
			}
		}
		if err := tx.QueryRow(ctx, `SELECT version, oldest FROM svc_version FOR UPDATE`).Scan(&version, &oldest); err != nil {
			return err
		}
		for _, m := range list {
			if m.Version <= version {
				continue
			}
			// Several statements in one message require the protocol without parameters.
			if _, err := tx.Conn().PgConn().Exec(ctx, m.SQL).ReadAll(); err != nil {
				return fmt.Errorf("migration %d: %w", m.Version, err)
			}
			version, oldest = m.Version, max(oldest, m.Oldest)
		}
		_, err := tx.Exec(ctx, `UPDATE svc_version SET version = $1, oldest = $2`, version, oldest)
		return err
	})
	return version, oldest, err
}
