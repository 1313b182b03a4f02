package api

import "time"

// StatsPeriods are the periods of GET /api/traces/stats.
var StatsPeriods = []string{"1h", "24h", "7d", "30d"}

// DefaultStatsPeriod is the period of trace statistics when the query names none.
const DefaultStatsPeriod = "24h"

// MaxStatsParts bounds the parts of a window of trace statistics.
const MaxStatsParts = 60

// TraceStats is the response to GET /api/traces/stats, whose members are at top
// level. Groups is empty without groupBy, and Period for a query with startDate. The traces
// are those from From on and before To, which are the bounds of the query rounded outward.
type TraceStats struct {
	Period  string       `json:"period,omitempty"`
	From    time.Time    `json:"from"`
	To      time.Time    `json:"to"`
	Summary StatsSummary `json:"summary"`
	Groups  []StatsGroup `json:"groups"`
	Parts   []StatsPart  `json:"parts,omitempty"` // oldest first, for a query with parts
}

// StatsPart has the totals of a part of the window: of the traces from From on and before To.
type StatsPart struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	StatsSummary
}

// StatsSummary has the totals of the period; all are zero without traces.
type StatsSummary struct {
	TotalTraces       int64   `json:"totalTraces"`
	SuccessCount      int64   `json:"successCount"`
	ErrorCount        int64   `json:"errorCount"`
	BlockedCount      int64   `json:"blockedCount"` // part of ErrorCount: blocked by a rule, a limit or a policy
	FailedCount       int64   `json:"failedCount"`  // part of ErrorCount: all other errors
	ErrorRatePercent  float64 `json:"errorRatePercent"`
	TotalInputTokens  int64   `json:"totalInputTokens"`
	TotalOutputTokens int64   `json:"totalOutputTokens"`
	TotalCostUSD      float64 `json:"totalCostUsd"`
	AvgDurationMs     float64 `json:"avgDurationMs"`
	P50DurationMs     float64 `json:"p50DurationMs"`
	P95DurationMs     float64 `json:"p95DurationMs"`
	P99DurationMs     float64 `json:"p99DurationMs"`
}

// StatsGroup has the totals of one group. The fields that name the group depend
// on groupBy, as in CostEntry.
type StatsGroup struct {
	GroupKey
	TraceCount       int64   `json:"traceCount"`
	BlockedCount     int64   `json:"blockedCount"`
	FailedCount      int64   `json:"failedCount"`
	TotalCostUSD     float64 `json:"totalCostUsd"`
	ErrorRatePercent float64 `json:"errorRatePercent"`
	AvgDurationMs    float64 `json:"avgDurationMs"`
	P50DurationMs    float64 `json:"p50DurationMs"`
	P95DurationMs    float64 `json:"p95DurationMs"`
	P99DurationMs    float64 `json:"p99DurationMs"`
}
