package clickhouse

import (
	"context"
	"fmt"
	"math"

	"svc/store"
	"svc/store/rollup"
)

// nameSQL is SQL for the values of the dimensions of names, as store.Trace.Names returns them.
var nameSQL = [...]string{fmt.Sprintf("if(tool != '' AND reason = 'no_route', %s, tool)", quote(store.OtherName)), "rule", "client_name"}

// The first day of the month of a day; the day and the hour of a trace.
const (
	monthOfSQL = "toUInt32(toUInt16(toStartOfMonth(toDate(toUInt16(%s)))))"
	daySQL     = "intDiv(created, 86400000000000)"
	hourSQL    = "toUInt32(intDiv(created, 3600000000000))"
)

var monthSQL = fmt.Sprintf(monthOfSQL, daySQL)

// mergedNames returns the names that a generation has of the months of traces, which are a
// subquery, from the earliest of them on.
func (t *tenant) mergedNames(ctx context.Context, sh *shard, g *generation, traces string) (rollup.Names, error) {
	names := rollup.Names{}
	days, some := g.rows(0, math.MaxUint16)
	if !some {
		return names, nil
	}
	var table uint8
	var month uint32
	var name string
	err := sh.rows(ctx, fmt.Sprintf("SELECT DISTINCT tbl, %s AS month, env FROM rollups WHERE tenant = %s AND %s AND tbl IN (%d, %d, %d) AND bucket >= (SELECT if(count() = 0, 4294967295, min(%s)) FROM %s)",
		fmt.Sprintf(monthOfSQL, "bucket"), quote(t.id), days, rollup.DayTool, rollup.DayRule, rollup.DayClient, monthSQL, traces), []any{&table, &month, &name}, func() error {
		names.Of(rollup.Table(table).Names(), rollup.ByDay.Start(month), name)
		return nil
	})
	return names, err
}

// namesOf adds the hours of names of the commits after a generation, up to a position.
func (t *tenant) namesOf(ctx context.Context, sh *shard, g *generation, upTo int64, r *numbered) error {
	traces := t.since(g.seq, 2*int64(settle), upTo, "")
	names, err := t.mergedNames(ctx, sh, g, traces)
	if err != nil {
		return err
	}
	sum := rollup.NewCollector()
	for i, sql := range nameSQL {
		by := rollup.Tool + rollup.Dimension(i)
		var hour uint32
		var name string
		var row sums
		err := sh.rows(ctx, fmt.Sprintf("SELECT %s AS hour, %s AS word, %s FROM %s GROUP BY hour, word, bin ORDER BY min(seq)", hourSQL, sql, sumsSQL, traces),
			append([]any{&hour, &name}, row.list()...), func() error {
				name = names.Of(by, rollup.ByHour.Start(hour), name)
				partial := row.partial()
				sum.Add(rollup.Key{Table: by.FinestTable(), Bucket: hour, Env: r.words.Number(name)}, &partial)
				return nil
			})
		if err != nil {
			return err
		}
	}
	r.entries = append(r.entries, sum.Entries()...)
	return nil
}

// addUnmergedNames is addUnmerged for a dimension of names: all unmerged traces count for the bound
// of their months, also those outside of the window.
func (t *tenant) addUnmergedNames(ctx context.Context, sh *shard, g *generation, p rollup.Plan, by rollup.Dimension, groups sumsOf) error {
	traces := t.unmerged(g, math.MaxInt64, "")
	names, err := t.mergedNames(ctx, sh, g, traces)
	if err != nil {
		return err
	}
	var month uint32
	var inside uint8
	var name string
	var row sums
	var data []byte
	return sh.rows(ctx, fmt.Sprintf("SELECT %s AS month, %s AS inside, %s AS word, %s FROM %s GROUP BY month, inside, word, bin ORDER BY min(seq)", monthSQL, within(p), nameSQL[by-rollup.Tool], sumsSQL, traces),
		append([]any{&month, &inside, &name}, row.list()...), func() error {
			name = names.Of(by, rollup.ByDay.Start(month), name)
			if inside == 0 {
				return nil
			}
			partial := row.partial()
			data = partial.Append(data[:0])
			return groups.of(name).Add(data, true)
		})
}
