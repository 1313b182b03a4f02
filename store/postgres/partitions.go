package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Traces are partitioned by the day of their creation, in UTC. The partition of a day
// is created with its first trace, if the day is within daysBack of the current time.
// Older traces, whose days a reporter can choose freely, share one default partition.

const (
	day      = int64(24 * time.Hour)
	daysBack = 400
	// daysAhead is the number of future days whose partitions are created in advance.
	daysAhead = 2
	// ddlWait bounds how long creating or dropping a partition waits for users of the
	// table, since all other statements queue behind the wait.
	ddlWait = `SET LOCAL lock_timeout = '2s'`
)

// dayOf returns the number of the day of a time in nanoseconds.
func dayOf(nanos int64) int64 { return nanos / day }

func partitionOf(d int64) string { return fmt.Sprintf("traces_day_%d", d) }

// makeDays creates the missing partitions of days.
func (s *Store) makeDays(ctx context.Context, days map[int64]bool) error {
	today := dayOf(s.now().UnixNano())
	for d := range days {
		s.mu.Lock()
		made := s.days[d]
		s.mu.Unlock()
		if made || d < today-daysBack || d > today+daysAhead {
			continue
		}
		err := s.makeDay(ctx, d)
		if code(err) == lockNotAvailable {
			continue // the table is in use: until the day has a partition, its traces go to the default partition
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.days[d] = true
		s.mu.Unlock()
	}
	return nil
}

// makeDaysAhead creates the partitions of today and of the next days.
func (s *Store) makeDaysAhead(ctx context.Context) error {
	today := dayOf(s.now().UnixNano())
	days := map[int64]bool{}
	for d := range int64(daysAhead + 1) {
		days[today+d] = true
	}
	return s.makeDays(ctx, days)
}

// makeDay creates a partition as a separate table and attaches it, so that readers and
// writers of other partitions are not blocked.
func (s *Store) makeDay(ctx context.Context, d int64) error {
	name := partitionOf(d)
	err := s.run(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		var there bool
		if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&there); err != nil || there {
			return err
		}
		for _, sql := range []string{
			ddlWait,
			// The lock serializes processes that create partitions.
			`SELECT version FROM svc_version FOR UPDATE`,
			`CREATE TABLE IF NOT EXISTS ` + name + ` (LIKE traces INCLUDING DEFAULTS)`,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_inherits WHERE inhrelid = to_regclass($1))`, name).Scan(&there)
		if err != nil || there {
			return err
		}
		_, err = tx.Exec(ctx, fmt.Sprintf(`ALTER TABLE traces ATTACH PARTITION %s FOR VALUES FROM (%d) TO (%d)`, name, d*day, (d+1)*day))
		return err
	})
	if code(err) == checkViolation {
		return nil // traces of the day are in the default partition, and stay there
	}
	return err
}

// partitions returns the days that have a partition, oldest first.
func (s *Store) partitions(ctx context.Context) ([]int64, error) {
	return listOf[int64](ctx, s, `SELECT substr(c.relname, 12)::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = to_regclass('traces') AND c.relname ~ '^traces_day_[0-9]+$' ORDER BY 1`)
}

// dropDay drops the partition of a day if every tenant with traces in it has removed
// them. The check is made with the lock held.
func (s *Store) dropDay(ctx context.Context, d int64) (dropped bool, err error) {
	name := partitionOf(d)
	s.mu.Lock()
	delete(s.days, d)
	s.mu.Unlock()
	err = s.run(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		dropped = false
		// The parent table is locked first, in the order of readers, to avoid a
		// deadlock.
		for _, sql := range []string{ddlWait, `LOCK TABLE ONLY traces IN ACCESS EXCLUSIVE MODE`, `LOCK TABLE ` + name + ` IN ACCESS EXCLUSIVE MODE`} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		var some bool
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM trace_state s WHERE s.purged < $1 AND EXISTS (SELECT 1 FROM `+name+` p WHERE p.tenant = s.tenant))`, (d+1)*day).Scan(&some)
		if err != nil || some {
			return err
		}
		_, err = tx.Exec(ctx, `DROP TABLE `+name)
		dropped = err == nil
		return err
	})
	if c := code(err); c == undefinedTable || c == lockNotAvailable {
		return false, nil // dropped by another process, or in use: tried again next time
	}
	return dropped, err
}
