package clickhouse

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"svc/store"
)

//go:embed migrations/*.sql
var files embed.FS

// schema are the embedded migrations, in order. The engine has no transactions, so
// every statement must be safe to run again, and in two processes concurrently.
var schema = store.MustReadMigrations(files)

// SchemaVersion returns the schema version of this program.
func SchemaVersion() int { return schema[len(schema)-1].Version }

// statementsOf splits a file at semicolons, and removes comments.
func statementsOf(text string) (list []string) {
	var b strings.Builder
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		b.WriteString(strings.TrimRight(code, " \n") + "\n")
	}
	for _, one := range strings.Split(b.String(), ";") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list
}

// schemaTable has a row for each migration that was made. Rows are inserted, never
// changed.
const schemaTable = "CREATE TABLE IF NOT EXISTS svc_schema_version @CLUSTER (version UInt32, oldest UInt32) ENGINE ORDER BY version"

// migrate brings the shard to the newest schema version and returns it: an empty one always,
// an older schema if the options allow it.
func (sh *shard) migrate(ctx context.Context, database string, list []store.Migration) (int, error) {
	version, oldest, err := sh.schemaOf(ctx)
	if err != nil {
		return 0, err
	}
	newest := list[len(list)-1].Version
	if oldest > newest {
		return 0, fmt.Errorf("shard %s has schema %d, which needs a program with at least schema %d; this program has schema %d: start a newer svc", sh.name, version, oldest, newest)
	}
	if version >= newest {
		return version, nil
	}
	from := version
	if from > 0 && !sh.s.opts.Migrate {
		return 0, fmt.Errorf("shard %s has schema %d, and this program needs schema %d: start 'svc serve' of this version on it, which changes the schema", sh.name, from, newest)
	}
	if from > 0 {
		sh.s.log.Info("the store of traces has an older schema: it is changed; svc writes no copy of it", "shard", sh.name, "from", from, "to", newest)
	}
	if err := sh.exec(ctx, sh.dialect.table(schemaTable, database)); err != nil {
		return 0, err
	}
	for _, m := range list {
		if m.Version <= version {
			continue
		}
		for _, statement := range statementsOf(m.SQL) {
			err := sh.exec(ctx, sh.dialect.table(statement, database))
			if c := code(err); (c == illegalColumn || c == duplicateColumn) && strings.Contains(statement, "ADD COLUMN") {
				err = nil // an earlier attempt or another process has added the column
			}
			if err != nil {
				return 0, fmt.Errorf("migration %d: %w", m.Version, err)
			}
		}
		note := fmt.Sprintf("INSERT INTO svc_schema_version SELECT %d, %d", m.Version, m.Oldest)
		if err := sh.exec(ctx, note); err != nil {
			return 0, err
		}
		version = m.Version
	}
	if from > 0 {
		sh.s.log.Info("the schema of the store of traces was changed", "shard", sh.name, "from", from, "to", version)
	}
	return version, nil
}

// errUnreleased is the error of a shard of a build from before the first release, which had
// its versions in the table svc_schema.
var errUnreleased = errors.New("its tables were created by a build of svc from before the first release, which this program cannot read: keep the database for that build, and give this one an empty database")

// schemaOf returns the version of a shard, 0 for one without a schema.
func (sh *shard) schemaOf(ctx context.Context) (version, oldest int, err error) {
	var v, o uint32
	err = sh.row(ctx, "SELECT max(version), max(oldest) FROM svc_schema_version", &v, &o)
	if code(err) == unknownTable {
		var unreleased uint64
		err = sh.row(ctx, "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 'svc_schema'", &unreleased)
		if unreleased > 0 {
			err = fmt.Errorf("shard %s: %w", sh.name, errUnreleased)
		}
	}
	return int(v), int(o), err
}
