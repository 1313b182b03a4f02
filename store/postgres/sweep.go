package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// sweepRows bounds the rows that one transaction of a sweep deletes.
const sweepRows = 5000

// sweep removes the rows of traces that are not shown any more: the partition of a day
// where every tenant that has traces in it has removed them, and rows where others keep
// theirs for longer. Several processes may sweep at once.
func (s *Store) sweep(ctx context.Context) error {
	var days []int64
	var purged int64 // the most of all tenants
	err := s.run(ctx, reading, func(ctx context.Context, tx pgx.Tx) (err error) {
		if err := tx.QueryRow(ctx, `SELECT coalesce(max(purged), 0) FROM trace_state`).Scan(&purged); err != nil {
			return err
		}
		days, err = s.partitions(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range days {
		if (d+1)*day > purged {
			break
		}
		dropped, err := s.dropDay(ctx, d)
		// Tenants have a day to come as far as each other before rows are deleted one by one.
		if err == nil && !dropped && (d+2)*day <= purged {
			err = s.sweepTable(ctx, partitionOf(d))
		}
		if err != nil {
			return err
		}
	}
	if err := s.sweepTable(ctx, `traces_other`); err != nil {
		return err
	}
	return s.sweepBatches(ctx)
}

// sweepTable deletes rows that are not shown any more from a partition, whose name this
// package has made.
func (s *Store) sweepTable(ctx context.Context, table string) error {
	var tenants []int32
	err := s.run(ctx, reading, func(ctx context.Context, tx pgx.Tx) error {
		tenants = tenants[:0]
		var n int32
		return rows(ctx, tx, `SELECT s.tenant FROM trace_state s WHERE s.purged > 0 AND EXISTS (SELECT 1 FROM `+table+` t WHERE t.tenant = s.tenant AND t.created < s.purged)`,
			nil, []any{&n}, func() error {
				tenants = append(tenants, n)
				return nil
			})
	})
	for _, n := range tenants {
		for removed := int64(sweepRows); removed == sweepRows && err == nil; {
			removed, err = s.delete(ctx, fmt.Sprintf(`DELETE FROM %[1]s WHERE tenant = $1 AND (created, seq) IN
				(SELECT created, seq FROM %[1]s WHERE tenant = $1 AND created < (SELECT purged FROM trace_state WHERE tenant = $1) ORDER BY created, seq LIMIT $2)`, table), n, sweepRows)
		}
	}
	if code(err) == undefinedTable {
		return nil // another process has dropped it
	}
	return err
}

// sweepBatches forgets commits all of whose traces are not shown any more.
func (s *Store) sweepBatches(ctx context.Context) error {
	var tenants []int32
	err := s.run(ctx, reading, func(ctx context.Context, tx pgx.Tx) error {
		tenants = tenants[:0]
		var n int32
		return rows(ctx, tx, `SELECT tenant FROM trace_state WHERE purged > 0`, nil, []any{&n}, func() error {
			tenants = append(tenants, n)
			return nil
		})
	})
	for _, n := range tenants {
		for removed := int64(sweepRows); removed == sweepRows && err == nil; {
			removed, err = s.delete(ctx, `DELETE FROM trace_batches WHERE tenant = $1 AND n IN
				(SELECT n FROM (SELECT n, newest FROM trace_batches WHERE tenant = $1 ORDER BY n LIMIT $2) b WHERE newest < (SELECT purged FROM trace_state WHERE tenant = $1))`, n, sweepRows)
		}
	}
	return err
}

// delete deletes rows in a transaction of its own and returns how many there were.
func (s *Store) delete(ctx context.Context, sql string, args ...any) (n int64, err error) {
	err = s.run(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sql, args...)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}
