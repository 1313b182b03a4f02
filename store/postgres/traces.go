package postgres

import (
	"context"
	"fmt"
	"strings"

	"svc/store"
)

// selection is SQL conditions on traces with their arguments.
type selection struct {
	where strings.Builder
	args  []any
}

// traceSelection selects the traces of a tenant that are not hidden and match a
// filter. The SQL consists of constants only.
func traceSelection(tenant int32, horizon int64, f *store.TraceFilter) *selection {
	q := &selection{args: []any{tenant}}
	q.where.WriteString(`tenant = $1`)
	from := horizon
	if !f.Start.IsZero() {
		from = max(from, nanos(f.Start))
	}
	q.and(`created >= $%d`, from)
	if !f.End.IsZero() {
		q.and(`created <= $%d`, nanos(f.End))
	}
	if f.AgentID != "" {
		q.and(`agent = $%d`, []byte(f.AgentID))
	}
	q.where.WriteString(statusConditions[f.Status])
	if _, known := statusConditions[f.Status]; !known {
		q.where.WriteString(` AND false`)
	}
	if f.Environment != "" {
		q.and(`env = $%d`, []byte(f.Environment))
	}
	if f.MinCost != nil {
		q.and(`cost >= $%d`, int64(*f.MinCost))
	}
	if f.MaxCost != nil {
		q.and(`cost <= $%d`, int64(*f.MaxCost))
	}
	if f.MinInjectionScore != nil {
		q.and(`score >= $%d`, *f.MinInjectionScore)
	}
	q.details(f)
	return q
}

// statusConditions is the SQL condition of each status.
var statusConditions = map[store.TraceStatus]string{
	"": ``, store.TraceError: ` AND error`, store.TraceSuccess: ` AND NOT error`,
	store.TraceBlocked: ` AND error AND blocked`, store.TraceFailed: ` AND error AND NOT blocked`,
}

// details adds the filter's conditions on the decision about a trace.
func (q *selection) details(f *store.TraceFilter) {
	for _, c := range [...]struct{ sql, value string }{
		{`session = $%d AND session <> ''`, f.SessionID}, {`agent_name = $%d`, f.AgentName}, {`model = $%d`, f.ModelName}, {`tool = $%d`, f.ToolName}, {`rule = $%d`, f.RuleID},
		{`$%d = ANY(policies)`, f.PolicyID}, {`$%d = ANY(pii)`, f.PII}, {`client = $%d`, f.Principal}, {`client_name = $%d`, f.Client}, {`request = $%d`, f.RequestID},
	} {
		if c.value != "" {
			q.and(c.sql, []byte(c.value))
		}
	}
	if f.MinDuration > 0 {
		q.and(`duration >= $%d`, int64(f.MinDuration))
	}
}

// and adds a condition with one argument.
func (q *selection) and(sql string, arg any) {
	q.where.WriteString(` AND ` + fmt.Sprintf(sql, q.arg(arg)))
}

// arg adds an argument and returns its placeholder number.
func (q *selection) arg(v any) int {
	q.args = append(q.args, v)
	return len(q.args)
}

// horizon returns the retention cutoff, before which traces of the tenant are hidden.
func (d *data) horizon() (horizon int64, err error) {
	_, err = d.one([]any{&horizon}, `SELECT horizon FROM trace_state WHERE tenant = $1`, d.n)
	return horizon, err
}

// ListTraces returns the traces that pass the filter, newest first.
func (t *tenant) ListTraces(ctx context.Context, f store.TraceFilter, page store.Page) (list []store.Trace, total int, err error) {
	err = t.read(ctx, func(d *data) error {
		horizon, err := d.horizon()
		if err != nil {
			return err
		}
		if total, err = d.countTraces(horizon, &f); err != nil {
			return err
		}
		list = []store.Trace{}
		if total == 0 || page.After.ID == "" && page.Offset >= total {
			return nil
		}
		q := traceSelection(d.n, horizon, &f)
		if page.After != (store.Place{}) {
			if err := d.behind(q, page.After); err != nil {
				return err
			}
		}
		limit, offset := q.arg(limitOf(page)), q.arg(max(page.Offset, 0))
		var r traceRow
		return d.each(r.list(), func() error {
			tr, err := r.trace()
			list = append(list, tr)
			return err
		}, fmt.Sprintf(`SELECT `+listColumns+` FROM traces WHERE %s ORDER BY created DESC, seq DESC LIMIT $%d OFFSET $%d`, q.where.String(), limit, offset), q.args...)
	})
	return list, total, err
}

// behind restricts the selection to traces after a position. If the trace at the
// position was removed, all that are as old were removed with it.
func (d *data) behind(q *selection, p store.Place) error {
	var seq int64
	_, err := d.one([]any{&seq}, `SELECT seq FROM trace_ids WHERE tenant = $1 AND id = $2 AND created = $3`, d.n, []byte(p.ID), nanos(p.At))
	if err == nil {
		at := q.arg(nanos(p.At))
		q.and(fmt.Sprintf(`(created, seq) < ($%d, $%%d)`, at), seq)
	}
	return err
}

// GetTrace returns a trace with all its fields.
func (t *tenant) GetTrace(ctx context.Context, id string) (out store.Trace, err error) {
	err = t.read(ctx, func(d *data) error {
		horizon, err := d.horizon()
		if err != nil {
			return err
		}
		var r traceRow
		ok, err := d.one(r.whole(), `SELECT `+wholeColumns+` FROM traces WHERE tenant = $1 AND created >= $3
			AND (created, seq) = (SELECT created, seq FROM trace_ids WHERE tenant = $1 AND id = $2)`, d.n, []byte(id), horizon)
		if err == nil && !ok {
			err = store.Missing("trace")
		}
		if err == nil {
			out, err = r.trace()
		}
		return err
	})
	return out, err
}
