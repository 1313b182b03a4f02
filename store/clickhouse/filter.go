package clickhouse

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"svc/store"
)

// conditions are SQL conditions on traces.
type conditions struct{ strings.Builder }

// and adds a condition.
func (c *conditions) and(sql string) {
	if c.Len() > 0 {
		c.WriteString(" AND ")
	}
	c.WriteString(sql)
}

// horizonOf returns SQL for the retention cutoff of a tenant, before which traces are
// hidden.
func horizonOf(tenant string) string {
	return "(SELECT max(created) FROM horizons WHERE tenant = " + quote(tenant) + ")"
}

// selection selects the traces of a tenant that are not hidden and match a filter, except
// for the time of creation, whose bounds it returns.
func selection(tenant string, f *store.TraceFilter) (c *conditions, from, to int64) {
	c = &conditions{}
	c.and("tenant = " + quote(tenant))
	from, to = 0, math.MaxInt64
	if !f.Start.IsZero() {
		from = max(from, nanos(f.Start))
	}
	if !f.End.IsZero() {
		to = nanos(f.End)
	}
	if sql, known := statusConditions[f.Status]; !known {
		c.and("0")
	} else if sql != "" {
		c.and(sql)
	}
	if f.MinCost != nil {
		c.and("cost >= " + strconv.FormatInt(int64(*f.MinCost), 10))
	}
	if f.MaxCost != nil {
		c.and("cost <= " + strconv.FormatInt(int64(*f.MaxCost), 10))
	}
	if f.MinInjectionScore != nil {
		c.and("score >= " + strconv.FormatFloat(*f.MinInjectionScore, 'e', -1, 64))
	}
	for _, one := range [...]struct{ column, value string }{
		{"agent", f.AgentID}, {"env", f.Environment}, {"session", f.SessionID}, {"agent_name", f.AgentName}, {"model", f.ModelName},
		{"tool", f.ToolName}, {"rule", f.RuleID}, {"client", f.Principal}, {"client_name", f.Client}, {"request", f.RequestID},
	} {
		if one.value != "" {
			c.and(one.column + " = " + quote(one.value))
		}
	}
	for _, one := range [...]struct{ column, value string }{{"policies", f.PolicyID}, {"pii", f.PII}} {
		if one.value != "" {
			c.and("has(" + one.column + ", " + quote(one.value) + ")")
		}
	}
	if f.MinDuration > 0 {
		c.and(fmt.Sprintf("duration >= %d", int64(f.MinDuration)))
	}
	return c, from, to
}

// selection is the selection of a filter; a filter on a session also narrows the times to
// those of the session.
func (t *tenant) selection(ctx context.Context, sh *shard, f *store.TraceFilter) (c *conditions, from, to int64, err error) {
	c, from, to = selection(t.id, f)
	if f.SessionID == "" {
		return c, from, to, nil
	}
	var first, last int64
	var n uint64
	err = sh.row(ctx, fmt.Sprintf("SELECT min(first), max(last), count() FROM sessions WHERE tenant = %s AND session = %s",
		quote(t.id), quote(f.SessionID)), &first, &last, &n)
	if err != nil {
		return nil, 0, 0, err
	}
	if n == 0 {
		first, last = 1, 0 // the session has no traces
	}
	return c, max(from, first), min(to, last), nil
}

// statusConditions is the SQL condition of each status.
var statusConditions = map[store.TraceStatus]string{
	"": "", store.TraceError: "error = 1", store.TraceSuccess: "error = 0",
	store.TraceBlocked: "error = 1 AND blocked = 1", store.TraceFailed: "error = 1 AND blocked = 0",
}
