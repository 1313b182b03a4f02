package server

import (
	"net/http"

	"svc/store"
	"svc/store/api"
)

// traceStats serves GET /api/traces/stats. The members of the response are at top level,
// without data. The literal path takes precedence over an id.
func (s *Server) traceStats(c *call) error {
	q := c.query()
	period := q.enum("period", api.DefaultStatsPeriod, api.StatsPeriods)
	by := store.GroupBy(q.enum("groupBy", "", api.GroupBys))
	agentID := q.text("agentId")
	if err := q.err(); err != nil {
		return err
	}
	stats, err := c.traces.Stats(c.Context(), store.StatsQuery{
		From: c.now.Add(-lookBacks[period]), To: upTo(c.now), AgentID: agentID, GroupBy: by,
	})
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, api.TraceStats{
		Period:  period,
		Summary: wireSummary(stats.Summary),
		Groups: each(stats.Groups, func(g store.StatsGroup) api.StatsGroup {
			return api.StatsGroup{
				GroupKey:   groupKey(by, g),
				TraceCount: g.Traces, TotalCostUSD: g.Cost.USD(), ErrorRatePercent: g.ErrorRatePercent(),
				BlockedCount: g.Blocked, FailedCount: g.Errors - g.Blocked,
				AvgDurationMs: milliseconds(g.AvgDuration()),
				P50DurationMs: milliseconds(g.P50), P95DurationMs: milliseconds(g.P95), P99DurationMs: milliseconds(g.P99),
			}
		}),
	})
}

// wireSummary converts totals; all are zero when there are no traces.
func wireSummary(t store.Totals) api.StatsSummary {
	return api.StatsSummary{
		TotalTraces: t.Traces, SuccessCount: t.Traces - t.Errors, ErrorCount: t.Errors,
		BlockedCount: t.Blocked, FailedCount: t.Errors - t.Blocked,
		ErrorRatePercent: t.ErrorRatePercent(),
		TotalInputTokens: t.InputTokens, TotalOutputTokens: t.OutputTokens, TotalCostUSD: t.Cost.USD(),
		AvgDurationMs: milliseconds(t.AvgDuration()),
		P50DurationMs: milliseconds(t.P50), P95DurationMs: milliseconds(t.P95), P99DurationMs: milliseconds(t.P99),
	}
}
