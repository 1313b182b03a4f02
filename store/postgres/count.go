package postgres

import (
	"math"
	"time"

	"svc/store"
	"svc/store/rollup"
)

// countTraces counts the traces that match a filter. Whole minutes are counted from the
// statistics, which are written together with the traces and agree with them. Rows of
// traces are counted only at the ends of the window, and if the filter has conditions
// that statistics cannot answer.
func (d *data) countTraces(horizon int64, f *store.TraceFilter) (total int, err error) {
	if !countedByStatistics(f) {
		return d.countRows(horizon, f, math.MinInt64, math.MaxInt64)
	}
	from, to := horizon, int64(math.MaxInt64) // to is exclusive, except for the last representable time
	if !f.Start.IsZero() {
		from = max(from, nanos(f.Start))
	}
	if !f.End.IsZero() && nanos(f.End) < math.MaxInt64 {
		to = nanos(f.End) + 1
	}
	first, last, minutesFrom, err := d.extent()
	if err != nil || first >= last || from >= to {
		return 0, err
	}
	// The range counted from statistics: whole minutes, or whole hours where the
	// minutes have been removed.
	a, b := from, to
	if from > first {
		a = upTo(from, time.Minute)
		if a < minutesFrom {
			a = upTo(from, time.Hour)
		}
	} else {
		a = first
	}
	if to < last {
		b = downTo(to, time.Minute)
		if b < minutesFrom {
			b = downTo(to, time.Hour)
		}
	} else {
		b = last
	}
	if a >= b {
		return d.countRows(horizon, f, math.MinInt64, math.MaxInt64)
	}
	if total, err = d.countMinutes(f, time.Unix(0, a), time.Unix(0, b)); err != nil {
		return 0, err
	}
	for _, end := range [...]struct{ from, to int64 }{{math.MinInt64, a}, {b, math.MaxInt64}} {
		if end.from == b && to >= last || end.to == a && from <= first {
			continue
		}
		n, err := d.countRows(horizon, f, end.from, end.to)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func downTo(nanos int64, unit time.Duration) int64 { return nanos - nanos%int64(unit) }

func upTo(nanos int64, unit time.Duration) int64 {
	if down := downTo(nanos, unit); down < nanos {
		return down + int64(unit)
	}
	return nanos
}

// extent returns the range of the statistics, in whole days, and where minutes start,
// in whole hours.
func (d *data) extent() (first, last, minutesFrom int64, err error) {
	some, err := d.one([]any{&first, &last, &minutesFrom}, `SELECT
		least((SELECT min(bucket) FROM rollups WHERE tenant = $1 AND tbl = $2), (SELECT min(oldest) / 1440 FROM rollup_deltas WHERE tenant = $1)),
		greatest((SELECT max(bucket) FROM rollups WHERE tenant = $1 AND tbl = $2), (SELECT max(newest) / 1440 FROM rollup_deltas WHERE tenant = $1)),
		minutes_from FROM trace_state s WHERE s.tenant = $1 AND s.seq > 0`, d.n, int16(rollup.DayEnvironment))
	if err != nil || !some {
		return 0, 0, 0, err
	}
	return first * day, (last + 1) * day, upTo(minutesFrom, time.Hour), nil
}

// countMinutes counts from statistics.
func (d *data) countMinutes(f *store.TraceFilter, from, to time.Time) (int, error) {
	w := window{from: from, to: to, by: rollup.Environment, env: f.Environment}
	if f.AgentID != "" {
		w.agents = [][]byte{[]byte(rollup.AgentWord(f.AgentID, ""))}
		if f.Environment == "" {
			w.by = rollup.None
		}
	}
	counter := `traces`
	switch f.Status {
	case "":
	case store.TraceError:
		counter = `errors`
	case store.TraceSuccess:
		counter = `traces - errors`
	default:
		return 0, nil
	}
	totals, err := d.totals(w, counter)
	n := int64(0)
	for _, of := range totals {
		n += of
	}
	return int(n), err
}

// countRows counts the traces that match a filter and were created in a range whose end
// is exclusive.
func (d *data) countRows(horizon int64, f *store.TraceFilter, from, to int64) (n int, err error) {
	q := traceSelection(d.n, horizon, f)
	if from > math.MinInt64 {
		q.and(`created >= $%d`, from)
	}
	if to < math.MaxInt64 {
		q.and(`created < $%d`, to)
	}
	_, err = d.one([]any{&n}, `SELECT count(*) FROM traces WHERE `+q.where.String(), q.args...)
	return n, err
}

// countedByStatistics reports whether a filter has conditions only on time, agent,
// environment, and whether the trace is an error.
func countedByStatistics(f *store.TraceFilter) bool {
	rest := *f
	rest.Start, rest.End, rest.AgentID, rest.Environment = time.Time{}, time.Time{}, "", ""
	if rest.Status == store.TraceSuccess || rest.Status == store.TraceError {
		rest.Status = ""
	}
	return rest == store.TraceFilter{}
}
