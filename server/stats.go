package server

import (
	"fmt"
	"net/http"
	"time"

	"svc/store"
	"svc/store/api"
)

// traceStats serves GET /api/traces/stats. The members of the response are at top level,
// without data. The literal path takes precedence over an id.
func (s *Server) traceStats(c *call) error {
	q := c.query()
	window := store.StatsQuery{AgentID: q.text("agentId"), GroupBy: store.GroupBy(q.enum("groupBy", "", api.GroupBys))}
	by, period := window.GroupBy, q.window(c.now, &window)
	n, _ := q.integer("parts", "must be an integer")
	if _, given := q.get("parts"); given && (n < 1 || n > api.MaxStatsParts) {
		q.bad("parts", fmt.Sprintf("must be from 1 to %d", api.MaxStatsParts))
	}
	if err := q.err(); err != nil {
		return err
	}
	stats, err := c.traces.Stats(c.Context(), window)
	if err != nil {
		return err
	}
	parts, err := c.statsParts(window, n)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, api.TraceStats{
		Period: period, From: stats.From, To: stats.To, Parts: parts,
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

// maxStatsWindow bounds the windows of statistics, and so the rows that one query reads.
const maxStatsWindow = 400 * 24 * time.Hour

// window sets the bounds of a query from startDate and endDate, or from a period, which it returns: empty for dates.
func (q *query) window(now time.Time, w *store.StatsQuery) (period string) {
	from, to := q.timestamp("startDate", false), q.timestamp("endDate", true)
	if from == nil && to == nil {
		period = q.enum("period", api.DefaultStatsPeriod, api.StatsPeriods)
		w.From, w.To = now.Add(-lookBacks[period]), upTo(now)
		return period
	}
	if _, given := q.get("period"); given {
		q.bad("period", "cannot be combined with startDate and endDate")
	}
	if to == nil {
		to = &now
	}
	switch {
	case from == nil:
		q.bad("startDate", "is required with endDate")
		return ""
	case from.After(*to):
		q.bad("startDate", "must not be after endDate")
	case to.Sub(*from) > maxStatsWindow:
		q.bad("startDate", fmt.Sprintf("must be at most %d days before endDate", maxStatsWindow/(24*time.Hour)))
	}
	w.From, w.To = *from, upTo(*to) // endDate is inclusive, as in lists of traces
	return ""
}

// statsParts returns the totals of n equal parts of a window, oldest first. Stores round bounds outward, so each part
// begins where the one before ended: no trace counts twice. A part that has no time left is omitted.
func (c *call) statsParts(w store.StatsQuery, n int) (parts []api.StatsPart, err error) {
	q := store.StatsQuery{From: w.From, AgentID: w.AgentID}
	for i := range n {
		q.To = w.From.Add(w.To.Sub(w.From) / time.Duration(n) * time.Duration(i+1))
		if i == n-1 {
			q.To = w.To
		}
		if !q.From.Before(q.To) {
			continue
		}
		stats, err := c.traces.Stats(c.Context(), q)
		if err != nil {
			return nil, err
		}
		parts = append(parts, api.StatsPart{From: stats.From, To: stats.To, StatsSummary: wireSummary(stats.Summary)})
		q.From = stats.To
	}
	return parts, nil
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
