//go:build unix

package move_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.etcd.io/bbolt"
)

// numbering are columns with generated numbers, which differ between two databases with
// the same contents.
var numbering = map[string]string{
	"tenants": "number", "traces": "seq", "trace_ids": "seq", "trace_batches": "n traces newest created seqs",
	"trace_state": "purged agents_gen",
}

// leftBehind are the tables that a migration does not copy.
const leftBehind = " leases requests pulse migration handles traces_other svc_version "

// contentsOfPostgres returns every column of every table, except for generated numbers:
// a column that a migration omits makes a difference.
func contentsOfPostgres(t testing.TB, url string) (list []string) {
	t.Helper()
	conn := must(pgx.Connect(ctx, url))(t)
	defer conn.Close(ctx)
	columns := map[string][]string{}
	rows := must(conn.Query(ctx, `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2`))(t)
	var table, column string
	if _, err := pgx.ForEachRow(rows, []any{&table, &column}, func() error {
		skipped := " tenant " + numbering[table] + " "
		if !strings.Contains(leftBehind, " "+table+" ") && !strings.HasPrefix(table, "traces_day_") && !strings.Contains(skipped, " "+column+" ") {
			columns[table] = append(columns[table], column+"::text")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for table, names := range columns {
		sql := fmt.Sprintf(`SELECT concat_ws('|', %s) FROM %s x`, strings.Join(names, ", "), table)
		if table == "traces" || table == "trace_ids" { // hidden traces are not copied
			sql += ` WHERE created >= (SELECT horizon FROM trace_state s WHERE s.tenant = x.tenant)`
		}
		rows := must(conn.Query(ctx, sql))(t)
		var row string
		if _, err := pgx.ForEachRow(rows, []any{&row}, func() error {
			list = append(list, table+": "+row)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(list)
	return list
}

// numbered are the buckets whose keys or values contain numbers that differ between two
// files with the same contents; leases are not copied.
const numbered = " dict dict_values traces trace_ids trace_blocks trace_facets tools leases "

// contentsOfBolt returns every key and value, except for the numbered buckets.
func contentsOfBolt(t testing.TB, path string) (list []string) {
	t.Helper()
	db := must(bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true}))(t)
	defer db.Close()
	var read func(name string, b *bbolt.Bucket) error
	read = func(name string, b *bbolt.Bucket) error {
		if strings.Contains(numbered, " "+name+" ") || strings.HasPrefix(name, "rollup_") {
			return nil
		}
		return b.ForEach(func(k, v []byte) error {
			if v == nil {
				return read(string(k), b.Bucket(k))
			}
			if name == "state" && string(k) == "agent_changes" {
				return nil
			}
			list = append(list, fmt.Sprintf("%s: %q = %q", name, k, v))
			return nil
		})
	}
	if err := db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { return read(string(name), b) })
	}); err != nil {
		t.Fatal(err)
	}
	return list
}
