package clickhouse

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"svc/store/migrations"
)

//go:embed migrations/*.sql
var files embed.FS

// schema are the embedded migrations, in order. The engine has no transactions, so
// every statement must be safe to run again, and in two processes concurrently.
var schema = migrations.MustRead(files)

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
const schemaTable = "CREATE TABLE IF NOT EXISTS svc_schema @CLUSTER (version UInt32, oldest UInt32) ENGINE ORDER BY version"

// migrate brings the shard to the newest schema version and returns it.
func (sh *shard) migrate(ctx context.Context, database string, list []migrations.Migration) (int, error) {
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
		note := fmt.Sprintf("INSERT INTO svc_schema SELECT %d, %d", m.Version, m.Oldest)
		if err := sh.exec(ctx, note); err != nil {
			return 0, err
		}
		version = m.Version
	}
	return version, nil
}

// schemaOf returns the version of a shard, 0 for one without a schema.
func (sh *shard) schemaOf(ctx context.Context) (version, oldest int, err error) {
	var v, o uint32
	err = sh.row(ctx, "SELECT max(version), max(oldest) FROM svc_schema", &v, &o)
	if code(err) == unknownTable {
		err = nil
	}
	return int(v), int(o), err
}
