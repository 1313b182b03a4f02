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

// schema are the migrations of this package, in order. The engine has no transactions:
// every statement may run again, and at two processes at once.
var schema = migrations.MustRead(files)

// statementsOf splits a file at semicolons, and leaves comments out.
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

// schemaTable notes which migrations were made. It is written alone, never changed.
const schemaTable = "CREATE TABLE IF NOT EXISTS svc_schema @CLUSTER (version UInt32, oldest UInt32) ENGINE ORDER BY version"

// migrate brings the shard to the newest of the migrations and returns its version.
func (sh *shard) migrate(ctx context.Context, database string, list []migrations.Migration) (int, error) {
	version, oldest, err := sh.schemaOf(ctx)
	if err != nil {
		return 0, err
	}
	newest := list[len(list)-1].Version
	if oldest > newest {
		return 0, fmt.Errorf("shard %s has schema %d, which programs use that know at least schema %d; this one knows %d: start a newer svc", sh.name, version, oldest, newest)
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
				err = nil // an earlier attempt or another process has added it
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

// schemaOf is the version of a shard, 0 of one without a schema.
func (sh *shard) schemaOf(ctx context.Context) (version, oldest int, err error) {
	var v, o uint32
	err = sh.row(ctx, "SELECT max(version), max(oldest) FROM svc_schema", &v, &o)
	if code(err) == unknownTable {
		err = nil
	}
	return int(v), int(o), err
}
