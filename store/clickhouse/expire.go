package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"svc/store"
	"svc/store/rollup"
)

// Expire hides traces and statistics that are too old at once, in one step. Partitions
// that are hidden for all tenants are dropped later, in the background.
func (t *tenant) Expire(ctx context.Context, b store.ExpireBounds) (res store.Expired, err error) {
	err = t.on(ctx, func(sh *shard) error {
		if fault := t.s.opts.fault; fault != nil {
			if err := fault(); err != nil {
				return t.s.wrote(err)
			}
		}
		var horizon, minutes int64
		err := sh.row(ctx, "SELECT max(created), max(minutes) FROM horizons WHERE tenant = "+quote(t.id), &horizon, &minutes)
		if err != nil {
			return err
		}
		if !b.Traces.IsZero() {
			if res.Traces, err = t.hide(ctx, sh, horizon, nanos(b.Traces)); err != nil {
				return t.s.wrote(err)
			}
		}
		if !b.Minutes.IsZero() {
			if res.Minutes, err = t.dropMinutes(ctx, sh, minutes, b.Minutes); err != nil {
				return t.s.wrote(err)
			}
		}
		if err := t.s.sweep(ctx, sh); err != nil {
			t.s.log.Warn("old partitions could not be removed", "shard", sh.name, "error", err)
		}
		return t.s.wrote(nil)
	})
	return res, err
}

// hide moves the horizon (the retention cutoff) of the tenant, if that hides a trace.
func (t *tenant) hide(ctx context.Context, sh *shard, horizon, bound int64) (int, error) {
	if bound <= horizon {
		return 0, nil
	}
	var n uint64
	err := sh.row(ctx, fmt.Sprintf("SELECT uniqExact(id) FROM traces WHERE tenant = %s AND %s", quote(t.id), createdBetween(horizon, bound-1)), &n)
	if err == nil && n > 0 {
		err = sh.exec(ctx, fmt.Sprintf("INSERT INTO horizons SELECT %s, toInt64(%d), toInt64(0)", quote(t.id), bound))
	}
	return int(n), err
}

// dropMinutes sets the start of statistics by the minute to the hour of a time.
func (t *tenant) dropMinutes(ctx context.Context, sh *shard, begin int64, bound time.Time) (int, error) {
	hour := nanos(bound.UTC().Truncate(time.Hour))
	if hour <= begin {
		return 0, nil
	}
	from, to := rollup.ByMinute.Bucket(timeOf(begin)), rollup.ByMinute.Bucket(timeOf(hour))
	g, err := t.newestGeneration(ctx, sh)
	if err != nil {
		return 0, err
	}
	gone := map[uint32]bool{}
	var minute uint32
	add := func() error {
		gone[minute] = true
		return nil
	}
	if days, some := g.rows(0, math.MaxUint16); some {
		err := sh.rows(ctx, fmt.Sprintf("SELECT DISTINCT bucket FROM rollups WHERE tenant = %s AND tbl = %d AND bucket >= %d AND bucket < %d AND %s",
			quote(t.id), rollup.Minute, from, to, days), []any{&minute}, add)
		if err != nil {
			return 0, err
		}
	}
	err = sh.rows(ctx, fmt.Sprintf("SELECT DISTINCT %s FROM feed WHERE tenant = %s AND %s AND created >= %d AND created < %d", minuteSQL, quote(t.id), committedBehind(g.seq), begin, hour),
		[]any{&minute}, add)
	if err == nil && len(gone) > 0 {
		err = sh.exec(ctx, fmt.Sprintf("INSERT INTO horizons SELECT %s, toInt64(0), toInt64(%d)", quote(t.id), hour))
	}
	return len(gone), err
}

// sweepEvery is the interval at which a process looks for partitions that are hidden for
// all tenants.
const sweepEvery = 10 * time.Minute

// sweep drops the days that are hidden for every tenant with traces in them.
func (s *Store) sweep(ctx context.Context, sh *shard) error {
	s.mu.Lock()
	due := time.Since(sh.swept) >= sweepEvery
	if due {
		sh.swept = time.Now()
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	return sh.dropHidden(ctx)
}

// partitioned are the tables with partitions by day or month, and the nanoseconds of a
// unit of their partitions.
var partitioned = []struct {
	table, column string
	unit          int64
	ahead         int64 // maximum time between the end of a partition and the creation of the data in it
}{
	{"traces", "day", dayNanos, 0},
	{"ids", "month", 30 * dayNanos, 0},
	{"sessions", "month", 30 * dayNanos, 0},
	{"feed", "committed", dayNanos, int64(store.MaxAhead)},
}

// dropHidden drops the partitions of a shard whose traces are all hidden. Rows of the
// feed are merged before.
func (sh *shard) dropHidden(ctx context.Context) error {
	horizons := map[string]int64{}
	var tenant string
	var horizon int64
	latest := int64(0)
	err := sh.rows(ctx, "SELECT tenant, max(created) FROM horizons GROUP BY tenant", []any{&tenant, &horizon}, func() error {
		horizons[tenant] = horizon
		latest = max(latest, horizon)
		return nil
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range partitioned {
		bound := (latest - p.ahead) / p.unit
		if bound <= 0 {
			continue
		}
		tenants := map[uint16][]string{}
		var unit uint16
		err := sh.rows(ctx, fmt.Sprintf("SELECT DISTINCT %s, tenant FROM %s WHERE %s < %d", p.column, p.table, p.column, min(bound, math.MaxUint16)),
			[]any{&unit, &tenant}, func() error {
				tenants[unit] = append(tenants[unit], tenant)
				return nil
			})
		if err != nil {
			return err
		}
		for unit, list := range tenants {
			end := (int64(unit) + 1) * p.unit
			hidden := true
			for _, id := range list {
				hidden = hidden && horizons[id] >= end+p.ahead
			}
			if hidden && p.table == "feed" {
				hidden = sh.allMerged(ctx, list, end)
			}
			if hidden {
				errs = append(errs, sh.exec(ctx, fmt.Sprintf("ALTER TABLE %s DROP PARTITION %d", p.table, unit)))
			}
		}
	}
	return errors.Join(errs...)
}

// allMerged merges the commits before a time, and reports whether that succeeded for all
// tenants.
func (sh *shard) allMerged(ctx context.Context, tenants []string, before int64) bool {
	for _, id := range tenants {
		t := &tenant{sh.s, id}
		for more := true; more; {
			var err error
			if more, err = t.merge(ctx, sh, min(before, sh.clock()-int64(sh.s.opts.settle))); err != nil {
				return false
			}
		}
		g, err := t.newestGeneration(ctx, sh)
		if err != nil {
			return false
		}
		var left uint64
		err = sh.row(ctx, fmt.Sprintf("SELECT count() FROM feed WHERE tenant = %s AND seq > %d AND seq <= %d", quote(id), g.seq, before), &left)
		if err != nil || left > 0 {
			return false
		}
	}
	return true
}
