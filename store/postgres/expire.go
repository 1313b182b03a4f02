package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"svc/store"
	"svc/store/rollup"
)

// expireRows bounds the rows that one transaction of Expire removes.
const expireRows = 5000

// Expire removes traces and statistics that are too old. From the first step on,
// traces older than the horizon (the retention cutoff) are hidden. The steps remove
// their ids; the rows are removed with the partition of their day when every tenant's
// horizon has passed it: see sweep.
func (t *tenant) Expire(ctx context.Context, b store.ExpireBounds) (res store.Expired, err error) {
	for began := time.Now(); ; {
		one, err := t.expireStep(ctx, b)
		if err != nil {
			return res, err
		}
		res.Traces, res.Minutes, res.More = res.Traces+one.Traces, res.Minutes+one.Minutes, one.More
		if !one.More || time.Since(began) >= b.Budget {
			return res, nil
		}
	}
}

// expireStep removes at most expireRows rows of each kind.
func (t *tenant) expireStep(ctx context.Context, b store.ExpireBounds) (res store.Expired, err error) {
	var traces, minutes bool
	var n int32
	err = t.read(ctx, func(d *data) error {
		n = d.n
		traces, minutes, err = d.anythingExpired(b)
		return err
	})
	if err != nil || !traces && !minutes {
		return res, err
	}
	if minutes {
		// Statistics that are not merged yet have minutes too.
		for more := true; more && err == nil; {
			more, err = t.s.merge(ctx, n)
		}
		if err != nil {
			return res, err
		}
	}
	err = t.s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		d := &data{ctx: ctx, tx: tx, s: t.s, n: n}
		res = store.Expired{}
		if traces {
			more, err := d.expireTraces(nanos(b.Traces), &res)
			if err != nil {
				return err
			}
			res.More = more
		}
		if minutes {
			if res.Minutes, err = d.expireMinutes(b.Minutes); err != nil {
				return err
			}
			res.More = res.More || res.Minutes == expireRows
		}
		return d.flush()
	})
	t.s.forgetView(n)
	return res, err
}

// anythingExpired reports whether there is anything to remove.
func (d *data) anythingExpired(b store.ExpireBounds) (traces, minutes bool, err error) {
	var horizon, purged int64
	if _, err := d.one([]any{&horizon, &purged}, `SELECT horizon, purged FROM trace_state WHERE tenant = $1`, d.n); err != nil {
		return false, false, err
	}
	if traces = purged < horizon; !traces && !b.Traces.IsZero() {
		traces, err = d.exists(`SELECT 1 FROM traces WHERE tenant = $1 AND created >= $2 AND created < $3 LIMIT 1`, d.n, horizon, nanos(b.Traces))
	}
	if err == nil && !b.Minutes.IsZero() {
		minutes, err = d.exists(`SELECT 1 FROM rollups WHERE tenant = $1 AND tbl = $2 AND bucket < $3 UNION ALL SELECT 1 FROM rollup_deltas WHERE tenant = $1 AND oldest < $3 LIMIT 1`,
			d.n, int16(rollup.Minute), minuteOf(b.Minutes))
	}
	return traces, minutes, err
}

// minuteOf returns the first minute of the hour of a time: a window has either all
// minutes of an hour or none.
func minuteOf(at time.Time) int64 {
	return int64(rollup.ByMinute.Bucket(at.UTC().Truncate(time.Hour)))
}

// expireTraces hides the traces that are older than a time and removes their ids.
func (d *data) expireTraces(before int64, res *store.Expired) (more bool, err error) {
	var horizon, purged int64
	_, err = d.one([]any{&horizon, &purged}, `UPDATE trace_state SET horizon = greatest(horizon, $2) WHERE tenant = $1 RETURNING horizon, purged`, d.n, before)
	if err != nil {
		return false, err
	}
	// The cutoff of this step: the time of the trace with limit older traces.
	end := horizon
	more, err = d.one([]any{&end}, `SELECT created + 1 FROM traces WHERE tenant = $1 AND created >= $2 AND created < $3 ORDER BY created OFFSET $4 LIMIT 1`, d.n, purged, horizon, expireRows-1)
	if err != nil {
		return false, err
	}
	more = more && end < horizon
	res.Traces, err = d.count(`DELETE FROM trace_ids i USING traces t WHERE t.tenant = $1 AND t.created >= $2 AND t.created < $3
		AND i.tenant = $1 AND i.id = t.id AND i.created = t.created AND i.seq = t.seq`, d.n, purged, end)
	d.exec(`UPDATE trace_state SET purged = greatest(purged, $2) WHERE tenant = $1`, d.n, end)
	return more, err
}

// expireMinutes removes minute rows before the hour of a time and records where
// minutes start.
func (d *data) expireMinutes(before time.Time) (removed int, err error) {
	// A concurrent merge would add some of the rows again.
	if _, err := d.exists(`SELECT 1 FROM rollup_state WHERE tenant = $1 FOR UPDATE`, d.n); err != nil {
		return 0, err
	}
	removed, err = d.count(`DELETE FROM rollups WHERE tenant = $1 AND tbl = $2 AND (bucket, agent, model, env) IN
		(SELECT bucket, agent, model, env FROM rollups WHERE tenant = $1 AND tbl = $2 AND bucket < $3 ORDER BY bucket LIMIT $4)`,
		d.n, int16(rollup.Minute), minuteOf(before), expireRows)
	if err == nil && removed > 0 {
		d.exec(`UPDATE trace_state SET minutes_from = greatest(minutes_from, $2) WHERE tenant = $1`, d.n, before.UTC().Truncate(time.Hour).UnixNano())
	}
	return removed, err
}
