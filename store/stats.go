package store

import (
	"context"
	"time"
)

// GroupBy is a dimension of statistics.
type GroupBy string

// The dimensions.
const (
	GroupNone          GroupBy = ""
	GroupByAgent       GroupBy = "agent"
	GroupByModel       GroupBy = "model"
	GroupByEnvironment GroupBy = "environment"
)

// StatsQuery asks for statistics of the traces created in [From, To).
type StatsQuery struct {
	From    time.Time
	To      time.Time
	AgentID string // empty: all agents
	GroupBy GroupBy
}

// Totals sums up traces. The zero value is that of no traces.
type Totals struct {
	Traces       int64
	Errors       int64 // Status error, Blocked among them
	Blocked      int64
	InputTokens  int64
	OutputTokens int64
	Cost         NanoUSD
	DurationSum  time.Duration
	// The quantiles are nearest-rank over durations: the smallest duration that at
	// least that share of the traces does not exceed, with a relative error of at
	// most 1 % and never beyond the smallest and the largest duration. Zero without
	// traces.
	P50, P95, P99 time.Duration
	// P99Low is the smallest duration that the true p99 can be, at most P99. A limit
	// that P99Low does not exceed counts as met.
	P99Low time.Duration
}

// ErrorRatePercent is Errors per Traces in percent, 0 without traces.
func (t *Totals) ErrorRatePercent() float64 {
	if t.Traces == 0 {
		return 0
	}
	return 100 * float64(t.Errors) / float64(t.Traces)
}

// AvgDuration is the mean duration, 0 without traces.
func (t *Totals) AvgDuration() time.Duration {
	if t.Traces == 0 {
		return 0
	}
	return t.DurationSum / time.Duration(t.Traces)
}

// AvgCostUSD is the mean cost in dollars, 0 without traces.
func (t *Totals) AvgCostUSD() float64 {
	if t.Traces == 0 {
		return 0
	}
	return t.Cost.USD() / float64(t.Traces)
}

// StatsGroup is the totals of one value of the dimension asked for. Only the
// fields of that dimension are set.
type StatsGroup struct {
	AgentID       string // empty for an agent known by name alone
	AgentName     string // the present name, the last one of a deleted agent
	ModelProvider string
	ModelName     string
	Environment   string
	Totals
}

// SpendQuery asks what the traces of an agent cost that were created in [From, To).
type SpendQuery struct {
	AgentID  string
	From, To time.Time
}

// Stats answers a StatsQuery. From and To are the bounds that were really used:
// From is moved down and To up to a whole minute, so that the newest traces are
// in; where the minutes have been dropped by [TenantTraces.Expire], to a whole hour.
type Stats struct {
	From, To time.Time
	Summary  Totals
	Groups   []StatsGroup // by cost, then traces, both descending, then by name; empty without GroupBy
}

// Statistics answers questions from rollups that are written with the traces, so
// the two always agree; they outlive the traces.
type Statistics interface {
	// Stats sums up a window. An unknown AgentID gives zeros.
	Stats(ctx context.Context, q StatsQuery) (Stats, error)
	// Spend answers many questions at once, in their order: what all budgets of a
	// tenant have spent is one call. From and To are moved as in Stats. An AgentID
	// that is empty or not known has spent nothing.
	Spend(ctx context.Context, q []SpendQuery) ([]NanoUSD, error)
	// PolicyFires returns how many traces say that each of the policies fired; those
	// that none names are left out. Traces that named a policy before it existed, and
	// a policy that was deleted, may or may not be counted.
	PolicyFires(ctx context.Context, ids []string) (map[string]int64, error)
	// ListTools returns the tools that traces of an agent named, newest first by when
	// they were first seen. None for an id that no agent had; of an agent that was
	// deleted callers do not ask.
	ListTools(ctx context.Context, agentID string, page Page) ([]AgentTool, int, error)
}
