package clickhouse

import (
	"maps"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// dialect describes the differences between versions of the engine. All versions from 18.16
// on support the SQL of this package: no TTL, no codecs, no window functions, no
// LowCardinality, no lightweight deletes, no settings in statements.
type dialect struct {
	// modern engines support settings of 19.x and later, and reject some inserts without
	// them.
	modern bool
	// replicated tables are created on all hosts of a cluster.
	cluster string
}

// dialectOf returns the dialect of a version such as "18.16.1".
func dialectOf(major uint64, cluster string) dialect {
	return dialect{modern: major >= 20, cluster: cluster}
}

// settings are sent with every statement. They are numeric, because the protocol of old
// versions supports no other values.
func (d dialect) settings(limit time.Duration) driver.Settings {
	s := driver.Settings{
		"max_execution_time": max(int(limit/time.Second), 1),
		"max_query_size":     1 << 21, // one statement can list the ids of a whole batch
		"max_memory_usage":   4 << 30,
		// Blocks are written unbuffered to the table, and then to its materialized views. If
		// the engine buffered them, a process killed between the rows and the end of its
		// statement would leave ids of traces that do not exist.
		"min_insert_block_size_rows":  0,
		"min_insert_block_size_bytes": 0,
	}
	if d.modern {
		maps.Copy(s, driver.Settings{
			"max_partitions_per_insert_block": 0, // one batch can have late traces of many days
			"max_ast_elements":                1 << 20,
			"max_expanded_ast_elements":       1 << 20,
			// An error in a view fails the insert, and reads see the process's own writes.
			"materialized_views_ignore_errors": 0,
			"async_insert":                     0,
			"insert_quorum_parallel":           1,
		})
	}
	return s
}

// table completes a statement of a migration: ENGINE is replaced by the engine of its table,
// and ON CLUSTER is added after the name if there is a cluster. Replicated tables need a
// keeper. Old versions have no IF NOT EXISTS for columns: see shard.migrate.
func (d dialect) table(statement, database string) string {
	engine, on := "MergeTree()", ""
	if d.cluster != "" {
		name := between(statement, "EXISTS ", " ")
		engine = "ReplicatedMergeTree(" + quote("/clickhouse/tables/{shard}/"+database+"/"+name) + ", '{replica}')"
		on = " ON CLUSTER " + identifier(d.cluster)
	}
	if d.modern {
		statement = strings.ReplaceAll(statement, "ADD COLUMN", "ADD COLUMN IF NOT EXISTS")
	}
	statement = strings.ReplaceAll(statement, "ENGINE", "ENGINE = "+engine)
	return strings.ReplaceAll(statement, " @CLUSTER", on)
}

// between returns the text between two others.
func between(s, after, before string) string {
	_, s, _ = strings.Cut(s, after)
	s, _, _ = strings.Cut(s, before)
	return s
}

// identifier quotes an identifier.
func identifier(name string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}

// quote returns a string of any bytes as an SQL literal.
func quote(s string) string {
	if strings.IndexByte(s, '\\') >= 0 || strings.IndexByte(s, '\'') >= 0 {
		s = strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)
	}
	return "'" + s + "'"
}

// quoted returns strings as a list of SQL literals.
func quoted(list []string) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(s))
	}
	return b.String()
}
