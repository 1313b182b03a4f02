package clickhouse

import (
	"context"
	"fmt"
	"math"
	"time"

	"svc/store"
)

// Lists are read from the newest trace on in windows of time, each longer than the one before it:
// the page of a busy tenant is in the first window, and the engine sorts no more than one window.
const (
	firstWindow  = int64(clockSkew + time.Minute)
	secondWindow = int64(15 * time.Minute)
	// clockSkew bounds how far traces may be ahead of the clock of this process, because another
	// process with another clock dated them.
	clockSkew = time.Hour
	// After guessedWindows windows the range of the tenant's traces is queried.
	guessedWindows = 5
	widening       = 8
	// skipBySorting bounds the traces before a page that are read and skipped; more are counted,
	// window by window.
	skipBySorting = 5_000
	// windowParts is the number of parts in which a window is counted to skip traces.
	windowParts = 256
	// rowsAtOnce bounds the keys of traces in one statement.
	rowsAtOnce = 500
	// countedAtMost bounds an exact count of a list.
	countedAtMost = 10_000
	// countedAmong bounds the traces that are scanned to count those that match a filter.
	countedAmong = 300_000
)

// place is the key of a trace's row.
type place struct {
	created, seq int64
	writer       uint64
	id           string
}

func (p *place) list() []any { return []any{&p.created, &p.seq, &p.writer, &p.id} }

// before reports whether a trace is at or before another one in a list.
func (p place) before(o place) bool {
	switch {
	case p.created != o.created:
		return p.created > o.created
	case p.seq != o.seq:
		return p.seq > o.seq
	}
	return p.writer >= o.writer
}

// ListTraces returns the traces that pass the filter, newest first, with the exact total.
func (t *tenant) ListTraces(ctx context.Context, f store.TraceFilter, page store.Page) (list []store.Trace, total int, err error) {
	err = t.on(ctx, func(sh *shard) error {
		if list, err = t.list(ctx, sh, &f, page); err != nil {
			return err
		}
		where, from, to, err := t.selection(ctx, sh, &f)
		if err != nil {
			return err
		}
		where.and(createdBetween(from, to))
		where.and("created >= " + horizonOf(t.id))
		var n uint64
		err = sh.row(ctx, "SELECT uniqExact(id) FROM traces WHERE "+where.String(), &n)
		total = int(n)
		return err
	})
	return list, total, err
}

// ListUncounted is ListTraces with a count of at most a few thousand traces.
func (t *tenant) ListUncounted(ctx context.Context, f store.TraceFilter, page store.Page) (list []store.Trace, total int, atLeast bool, err error) {
	type count struct {
		n    int
		more bool
		err  error
	}
	err = t.on(ctx, func(sh *shard) error {
		// Most pages are not the last one and need the count, so both queries run concurrently.
		counts := make(chan count, 1)
		go func() {
			n, more, err := t.countAbout(ctx, sh, &f)
			counts <- count{n, more, err}
		}()
		list, err = t.list(ctx, sh, &f, page)
		c := <-counts
		if err != nil {
			return err
		}
		total = max(page.Offset, 0) + len(list)
		if page.After == (store.Place{}) && (page.Limit <= 0 || len(list) < page.Limit) && (len(list) > 0 || page.Offset <= 0) {
			return nil // the last page
		}
		atLeast = c.more
		if total = max(total, c.n); !atLeast && page.After == (store.Place{}) && len(list) == 0 {
			total = c.n
		}
		return c.err
	})
	return list, total, atLeast, err
}

// countAbout counts traces that match a filter, up to countedAtMost plus one, among at most
// countedAmong traces in its range of time. more reports whether there may be more.
func (t *tenant) countAbout(ctx context.Context, sh *shard, f *store.TraceFilter) (n int, more bool, err error) {
	where, from, to, err := t.selection(ctx, sh, f)
	if err != nil {
		return 0, false, err
	}
	all := &conditions{}
	all.and("tenant = " + quote(t.id))
	all.and(createdBetween(from, to))
	all.and("created >= " + horizonOf(t.id))
	// The conditions of the filter are applied after the limit on scanned traces.
	var counted, among uint64
	err = sh.row(ctx, fmt.Sprintf("SELECT count() FROM (SELECT id FROM (SELECT id, (%s) AS passes FROM traces WHERE %s LIMIT %d) WHERE passes LIMIT 1 BY id LIMIT %d)",
		where.String(), all.String(), countedAmong, countedAtMost+1), &counted)
	if err != nil || counted > countedAtMost {
		return int(counted), true, err
	}
	err = sh.row(ctx, fmt.Sprintf("SELECT count() FROM (SELECT created FROM traces WHERE %s LIMIT %d)", all.String(), countedAmong), &among)
	return int(counted), among >= countedAmong, err
}

// createdBetween is the condition on the creation of traces, with their days, so that parts of
// other days are not read.
func createdBetween(from, to int64) string {
	return between64("created", from, to) + fmt.Sprintf(" AND day >= %d AND day <= %d", dayOf(from), dayOf(to))
}

// committedBehind is the condition for rows of the feed that were committed after a position, also
// with their days.
func committedBehind(seq int64) string {
	return fmt.Sprintf("seq > %d AND committed >= %d", seq, dayOf(seq))
}

// between64 is the condition for the range of a column.
func between64(column string, from, to int64) string {
	return fmt.Sprintf("%s >= %d AND %s <= %d", column, from, column, to)
}

// list reads a page.
func (t *tenant) list(ctx context.Context, sh *shard, f *store.TraceFilter, page store.Page) ([]store.Trace, error) {
	where, from, to, err := t.selection(ctx, sh, f)
	if err != nil {
		return nil, err
	}
	var after *place
	if page.After != (store.Place{}) {
		p, err := t.placeOf(ctx, sh, page.After)
		if err != nil {
			return nil, err
		}
		after, to = &p, min(to, p.created)
	}
	places, err := t.places(ctx, sh, where, from, to, after, page)
	if err != nil {
		return nil, err
	}
	list := make([]store.Trace, 0, len(places))
	for begin := 0; begin < len(places); begin += rowsAtOnce {
		part := places[begin:min(begin+rowsAtOnce, len(places))]
		found, err := t.at(ctx, sh, part)
		if err != nil {
			return nil, err
		}
		for _, p := range part {
			if tr, ok := found[p]; ok { // otherwise the trace was removed meanwhile
				list = append(list, tr)
			}
		}
	}
	return list, nil
}

// placeOf returns the key of the trace at a position. If the trace was removed, all that are as
// old were removed with it.
func (t *tenant) placeOf(ctx context.Context, sh *shard, of store.Place) (place, error) {
	p := place{created: nanos(of.At), seq: math.MinInt64}
	var one place
	err := sh.rows(ctx, fmt.Sprintf("SELECT created, seq, writer, id FROM ids WHERE tenant = %s AND id = %s AND month = %d AND created = %d", quote(t.id), quote(of.ID), dayOf(p.created)/30, p.created),
		one.list(), func() error {
			if p.seq == math.MinInt64 || one.before(p) {
				p = one
			}
			return nil
		})
	return p, err
}

// places finds the traces of a page between two times, after a position.
func (t *tenant) places(ctx context.Context, sh *shard, where *conditions, from, to int64, after *place, page store.Page) (list []place, err error) {
	where.and("created >= " + horizonOf(t.id))
	high, oldest := min(to, nanos(t.s.opts.Now().Add(clockSkew))), from
	skip, limit := max(page.Offset, 0), page.Limit
	if limit <= 0 {
		limit = math.MaxInt32
	}
	read := after // the last place that was read
	window := func(low, high int64) string {
		c := &conditions{}
		c.and(where.String())
		c.and(createdBetween(low, high))
		if read != nil && read.created <= high {
			c.and(fmt.Sprintf("(created < %d OR (created = %d AND (seq < %d OR (seq = %d AND writer < %d))))", read.created, read.created, read.seq, read.seq, read.writer))
		}
		return c.String()
	}
	seen := map[string]bool{}
	for round, width := 0, firstWindow; high >= oldest && len(list) < limit; round, width = round+1, width*widening {
		if round == 1 {
			width = secondWindow
		}
		if round == guessedWindows {
			var newest int64
			if newest, oldest, err = t.extent(ctx, sh, from, high); err != nil || newest == 0 {
				return list, err
			}
			high = newest
		}
		if width <= 0 || width > math.MaxInt64/widening {
			width = math.MaxInt64 / widening
		}
		low := max(oldest, high-width+1)
		if skip > skipBySorting {
			var found bool
			if skip, low, high, found, err = t.skipParts(ctx, sh, window, low, high, skip); err != nil {
				return nil, err
			}
			if !found {
				high = low - 1
				continue
			}
		}
		part, err := t.newestPlaces(ctx, sh, window(low, high), skip, limit-len(list))
		if err != nil {
			return nil, err
		}
		var last *place // the end of a full part: the window may have more traces behind it
		if len(part) == limit-len(list) {
			p := part[len(part)-1]
			last = &p
		}
		if skip > 0 && len(part) == 0 { // all traces of the window are skipped
			var n uint64
			if err := sh.row(ctx, "SELECT uniqExact(id) FROM traces WHERE "+window(low, high), &n); err != nil {
				return nil, err
			}
			skip -= int(min(n, uint64(skip)))
		} else {
			skip = 0
		}
		if after != nil {
			if part, err = t.notShown(ctx, sh, part, *after); err != nil {
				return nil, err
			}
		}
		for _, p := range part {
			if !seen[p.id] {
				seen[p.id] = true
				list = append(list, p)
			}
		}
		if high = low - 1; last != nil { // the page is full, or traces were left out because an earlier page has them
			read, high = last, last.created
		}
	}
	return list, nil
}

// skipParts skips traces of a window, part by part from its end. It returns how many are still to
// be skipped in the part in which the page begins, and the bounds of that part. found is false
// when the page begins before the window. A part with many traces to skip is divided again.
func (t *tenant) skipParts(ctx context.Context, sh *shard, window func(low, high int64) string, low, high int64, skip int) (left int, from, to int64, found bool, err error) {
	for found = true; found && skip > skipBySorting && low < high; {
		step := max((high-low)/windowParts, 1)
		var part int64
		var n uint64
		from, to, found = low, high, false
		err = sh.rows(ctx, fmt.Sprintf("SELECT intDiv(created, %d) AS part, uniqExact(id) FROM traces WHERE %s GROUP BY part ORDER BY part DESC", step, window(low, high)), []any{&part, &n}, func() error {
			switch {
			case found:
			case uint64(skip) >= n:
				skip -= int(n)
			default:
				found = true
				from, to = max(low, part*step), min(high, part*step+step-1)
			}
			return nil
		})
		if err != nil {
			return 0, 0, 0, false, err
		}
		low, high = from, to
	}
	return skip, low, high, found, nil
}

// newestPlaces finds the newest traces that match a condition, except for the first skip of them,
// each once. Duplicate rows are rare, and the engine finds the first rows of an order much faster
// than it sorts all rows to remove duplicates. So it reads a few rows more than the page needs,
// and only if that is not enough it removes duplicates in the query.
func (t *tenant) newestPlaces(ctx context.Context, sh *shard, where string, skip, limit int) (list []place, err error) {
	const order = "SELECT created, seq, writer, id FROM traces WHERE %s ORDER BY created DESC, seq DESC, writer DESC LIMIT "
	var p place
	if limit < rowsAtOnce && skip <= skipBySorting {
		some, rows := skip+limit+rowsTwice, 0
		seen := make(map[string]bool, some)
		err := sh.rows(ctx, fmt.Sprintf(order+"%d", where, some), p.list(), func() error {
			rows++
			if !seen[p.id] {
				if seen[p.id] = true; len(seen) > skip && len(list) < limit {
					list = append(list, p)
				}
			}
			return nil
		})
		if err != nil || rows < some || len(list) == limit {
			return list, err
		}
		list = nil
	}
	err = sh.rows(ctx, fmt.Sprintf(order+"1 BY id LIMIT %d, %d", where, skip, limit), p.list(), func() error {
		list = append(list, p)
		return nil
	})
	return list, err
}

// rowsTwice is the expected maximum of duplicate rows in a page.
const rowsTwice = 50

// extent returns the range of creation times of the tenant's traces; 0 when there are none.
func (t *tenant) extent(ctx context.Context, sh *shard, from, to int64) (newest, oldest int64, err error) {
	err = sh.row(ctx, fmt.Sprintf("SELECT max(created), min(created) FROM traces WHERE tenant = %s AND %s", quote(t.id), createdBetween(from, to)), &newest, &oldest)
	return newest, oldest, err
}

// notShown removes traces of which another row was shown before a position.
func (t *tenant) notShown(ctx context.Context, sh *shard, list []place, after place) ([]place, error) {
	shown := map[string]bool{}
	for begin := 0; begin < len(list); begin += rowsAtOnce {
		ids := make([]string, 0, rowsAtOnce)
		for _, p := range list[begin:min(begin+rowsAtOnce, len(list))] {
			ids = append(ids, p.id)
		}
		var one place
		err := sh.rows(ctx, fmt.Sprintf("SELECT created, seq, writer, id FROM ids WHERE tenant = %s AND id IN (%s) AND month >= %d AND created >= %d", quote(t.id), quoted(ids), dayOf(after.created)/30, after.created),
			one.list(), func() error {
				if one.before(after) {
					shown[one.id] = true
				}
				return nil
			})
		if err != nil {
			return nil, err
		}
	}
	kept := list[:0]
	for _, p := range list {
		if !shown[p.id] {
			kept = append(kept, p)
		}
	}
	return kept, nil
}

// at reads the traces with given keys, as lists and streams show them.
func (t *tenant) at(ctx context.Context, sh *shard, places []place) (map[place]store.Trace, error) {
	found := make(map[place]store.Trace, len(places))
	if len(places) == 0 {
		return found, nil
	}
	low, high := places[0].created, places[0].created
	for _, p := range places {
		low, high = min(low, p.created), max(high, p.created)
	}
	seqs := make([]byte, 0, 20*len(places))
	for i, p := range places {
		if i > 0 {
			seqs = append(seqs, ',')
		}
		seqs = fmt.Appendf(seqs, "(%d,%d)", p.created, p.seq)
	}
	var r traceRow
	err := sh.rows(ctx, fmt.Sprintf("SELECT %s FROM traces WHERE tenant = %s AND %s AND (created, seq) IN (%s)", listColumns, quote(t.id), createdBetween(low, high), seqs),
		r.list(), func() error {
			tr, err := r.trace()
			found[place{r.created, r.seq, r.writer, tr.ID}] = tr
			return err
		})
	return found, err
}

// GetTrace returns a trace with all its fields.
func (t *tenant) GetTrace(ctx context.Context, id string) (out store.Trace, err error) {
	err = t.on(ctx, func(sh *shard) error {
		firsts, err := t.firsts(ctx, sh, []place{{id: id}})
		if err != nil {
			return err
		}
		first, found := firsts[id]
		if !found {
			return store.Missing("trace")
		}
		var r traceRow
		found = false
		err = sh.rows(ctx, fmt.Sprintf("SELECT %s FROM traces WHERE tenant = %s AND day = %d AND created = %d AND seq = %d AND writer = %d AND id = %s",
			wholeColumns, quote(t.id), dayOf(first.created), first.created, first.seq, first.writer, quote(id)), r.whole(), func() error {
			found = true
			out, err = r.trace()
			return err
		})
		if err == nil && !found {
			err = store.Missing("trace")
		}
		return err
	})
	return out, err
}

// The columns of traceRow.
const (
	listColumns = "created, seq, writer, id, agent, agent_name, error, blocked, env, session, provider, model, tool, request, client, client_name, client_version, rule, reason, error_kind, approval, approval_id, approved_by, " +
		"input, output, cache_read, cache_made, cost, duration, score, pii, labels, sets, fired"
	wholeColumns = listColumns + ", scores, spans"
)

// traceRow holds a row of traces that is read.
type traceRow struct {
	created, seq int64
	writer       uint64
	t            store.Trace
	failed       uint8
	blocked      uint8
	cost         int64
	duration     int64
	pii          []string
	labels, sets []string
	fired        string
	scores       string
	spans        string
}

// list returns the destinations for listColumns.
func (r *traceRow) list() []any {
	t := &r.t
	return []any{&r.created, &r.seq, &r.writer, &t.ID, &t.AgentID, &t.AgentName, &r.failed, &r.blocked, &t.Environment, &t.SessionID, &t.ModelProvider, &t.ModelName, &t.ToolName,
		&t.RequestID, &t.Principal, &t.ClientName, &t.ClientVersion, &t.RuleID, &t.Reason, &t.ErrorKind, &t.Approval.Status, &t.Approval.ID, &t.Approval.By, &t.InputTokens, &t.OutputTokens, &t.CacheReadTokens, &t.CacheCreationTokens,
		&r.cost, &r.duration, &t.InjectionScore, &r.pii, &r.labels, &r.sets, &r.fired}
}

// whole returns the destinations for wholeColumns.
func (r *traceRow) whole() []any { return append(r.list(), &r.scores, &r.spans) }

// trace returns the trace of the row.
func (r *traceRow) trace() (t store.Trace, err error) {
	t = r.t
	t.CreatedAt = timeOf(r.created)
	t.Status, t.Blocked = store.TraceSuccess, r.blocked != 0
	if r.failed != 0 {
		t.Status = store.TraceError
	}
	t.Cost, t.Duration = store.NanoUSD(r.cost), time.Duration(r.duration)
	t.PIIDetected = append([]string(nil), r.pii...)
	t.Labels, t.Sets = append([]string(nil), r.labels...), append([]string(nil), r.sets...)
	if t.PoliciesFired, err = listOf[store.PolicyFired](r.fired); err != nil {
		return t, err
	}
	if t.QualityScores, err = listOf[store.QualityScore](r.scores); err != nil {
		return t, err
	}
	t.Spans, err = listOf[store.Span](r.spans)
	return t, err
}
