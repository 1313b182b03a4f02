package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Traces are partitioned by the day of their creation, in UTC. A day has a partition
// when a trace of it comes, if it lies within daysBack of the present; older ones, of
// which a reporter could name any number, share the partition of all other days.

const (
	day      = int64(24 * time.Hour)
	daysBack = 400
	// daysAhead is how many days get their partition before their first trace.
	daysAhead = 2
	// ddlWait bounds how long the making or the removal of a partition waits for those
	// who use the table, since everybody else waits behind it.
	ddlWait = `SET LOCAL lock_timeout = '2s'`
)

// dayOf is the number of the day of a time in nanoseconds.
func dayOf(nanos int64) int64 { return nanos / day }

func partitionOf(d int64) string { return fmt.Sprintf("traces_day_%d", d) }

// makeDays makes the partitions of days that have none.
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
			continue // the table is in use: until it has a partition the day shares that of all others
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

// makeDaysAhead makes the partitions of today and of the next days.
func (s *Store) makeDaysAhead(ctx context.Context) error {
	today := dayOf(s.now().UnixNano())
	days := map[int64]bool{}
	for d := range int64(daysAhead + 1) {
		days[today+d] = true
	}
	return s.makeDays(ctx, days)
}

// makeDay makes a partition beside the table and attaches it: readers and writers of
// the others go on meanwhile.
func (s *Store) makeDay(ctx context.Context, d int64) error {
	name := partitionOf(d)
	err := s.run(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		var there bool
		if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&there); err != nil || there {
			return err
		}
		for _, sql := range []string{
			ddlWait,
			// Of several that make partitions one does.
			`SELECT version FROM svc_schema FOR UPDATE`,
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
		return nil // traces of the day are in the partition of all others, where they stay
	}
	return err
}

// partitions returns the days that have a partition, the oldest first.
func (s *Store) partitions(ctx context.Context, tx pgx.Tx) (days []int64, err error) {
	var d int64
	err = rows(ctx, tx, `SELECT substr(c.relname, 12)::bigint FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = to_regclass('traces') AND c.relname ~ '^traces_day_[0-9]+$' ORDER BY 1`, nil, []any{&d}, func() error {
		days = append(days, d)
		return nil
	})
	return days, err
}

// dropDay removes the partition of a day of which every tenant that has traces in it
// has removed them. Whether that is so is seen under the lock that keeps others away.
func (s *Store) dropDay(ctx context.Context, d int64) (dropped bool, err error) {
	name := partitionOf(d)
	s.mu.Lock()
	delete(s.days, d)
	s.mu.Unlock()
	err = s.run(ctx, writing, func(ctx context.Context, tx pgx.Tx) error {
		dropped = false
		// The table first, as those do who read it.
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
		return false, nil // another process was faster, or it is in use: next time
	}
	return dropped, err
}
