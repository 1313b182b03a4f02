package clickhouse

import (
	"maps"
	"strings"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// dialect is what differs between versions of the engine. The SQL of this package is
// understood by all of them, from 18.16 on: no TTL, no codecs, no window functions, no
// LowCardinality, no lightweight deletes, no settings in statements.
type dialect struct {
	// modern engines know settings of 19.x and later, and refuse some inserts unless
	// told otherwise.
	modern bool
	// replicated tables are made on all hosts of a cluster.
	cluster string
}

// dialectOf is the dialect of a version, as in "18.16.1".
func dialectOf(major uint64, cluster string) dialect {
	return dialect{modern: major >= 20, cluster: cluster}
}

// settings are sent with every statement. Numbers alone: the protocol of old versions
// carries nothing else.
func (d dialect) settings(limit time.Duration) driver.Settings {
	s := driver.Settings{
		"max_execution_time": max(int(limit/time.Second), 1),
		"max_query_size":     1 << 21, // ids of a whole batch are listed in one statement
		"max_memory_usage":   4 << 30,
		// Blocks are written as they come, to the table and then to what is made of it. Where
		// the engine collects them, a process that is killed between the rows and the end of
		// its statement leaves ids of traces that are not there.
		"min_insert_block_size_rows":  0,
		"min_insert_block_size_bytes": 0,
	}
	if d.modern {
		maps.Copy(s, driver.Settings{
			"max_partitions_per_insert_block": 0, // late traces of many days come in one batch
			"max_ast_elements":                1 << 20,
			"max_expanded_ast_elements":       1 << 20,
			// A view that fails fails the insert, and what was read is what was written.
			"materialized_views_ignore_errors": 0,
			"async_insert":                     0,
			"insert_quorum_parallel":           1,
		})
	}
	return s
}

// table completes a statement of a migration: ENGINE is the engine of its table, and
// the cluster follows the name where there is one. Replicated tables need a keeper. Old
// versions have no IF NOT EXISTS for columns: see shard.migrate.
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

// between is what stands between two texts.
func between(s, after, before string) string {
	_, s, _ = strings.Cut(s, after)
	s, _, _ = strings.Cut(s, before)
	return s
}

// identifier quotes a name.
func identifier(name string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}

// quote is a string as SQL: any bytes.
func quote(s string) string {
	if strings.IndexByte(s, '\\') >= 0 || strings.IndexByte(s, '\'') >= 0 {
		s = strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)
	}
	return "'" + s + "'"
}

// quoted is strings as a list of SQL.
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
