package clickhouse

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"svc/store"
)

// conditions is conditions on traces as SQL.
type conditions struct{ strings.Builder }

// and adds a condition.
func (c *conditions) and(sql string) {
	if c.Len() > 0 {
		c.WriteString(" AND ")
	}
	c.WriteString(sql)
}

// horizonOf is the creation before which traces of a tenant are not shown.
func horizonOf(tenant string) string {
	return "(SELECT max(created) FROM horizons WHERE tenant = " + quote(tenant) + ")"
}

// selection selects the traces of a tenant that are shown and pass a filter, but for
// the time of their creation, whose bounds it returns.
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

// statusConditions is what a status asks for.
var statusConditions = map[store.TraceStatus]string{
	"": "", store.TraceError: "error = 1", store.TraceSuccess: "error = 0",
	store.TraceBlocked: "error = 1 AND blocked = 1", store.TraceFailed: "error = 1 AND blocked = 0",
}
