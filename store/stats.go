package store

import (
	"context"
	"math"
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
	// The dimensions of names: see [Trace.Names].
	GroupByTool   GroupBy = "tool"
	GroupByRule   GroupBy = "rule"
	GroupByClient GroupBy = "client"
)

// Bounds of the dimensions of names, because names come from outside: of a tenant, each
// calendar month (UTC) has the first MaxNames names of each dimension, in the order of
// commits. All others of the month are OtherName, which is not counted.
const (
	MaxNames  = 1000
	OtherName = "other"
)

// Check rejects a dimension that does not exist, and a dimension of names for one agent.
func (q *StatsQuery) Check() error {
	switch q.GroupBy {
	case GroupNone, GroupByAgent, GroupByModel, GroupByEnvironment:
		return nil
	case GroupByTool, GroupByRule, GroupByClient:
		if q.AgentID == "" {
			return nil
		}
		return FieldError(Invalid, "statistics of one agent have no such groups", "groupBy", "must be agent, model or environment with agentId")
	}
	return FieldError(Invalid, "unknown dimension", "groupBy", "must be agent, model, environment, tool, rule or client")
}

// StatsQuery selects the traces created in [From, To) for statistics.
type StatsQuery struct {
	From    time.Time
	To      time.Time
	AgentID string // empty: all agents
	GroupBy GroupBy
}

// Totals are aggregated statistics of traces. The zero value stands for no traces.
type Totals struct {
	Traces       int64
	Errors       int64 // traces with Status error, including blocked ones
	Blocked      int64
	InputTokens  int64
	OutputTokens int64
	Cost         NanoUSD
	DurationSum  time.Duration
	// The quantiles are nearest-rank over durations: the smallest duration that at
	// least that fraction of the traces does not exceed, with a relative error of at
	// most 1 % and never beyond the smallest and the largest duration. They are zero
	// without traces.
	P50, P95, P99 time.Duration
	// P99Low is a lower bound of the true p99; P99 is the upper bound. A limit of at
	// least P99Low counts as met.
	P99Low time.Duration
}

// ErrorRatePercent returns Errors per Traces in percent, 0 without traces.
func (t *Totals) ErrorRatePercent() float64 {
	if t.Traces == 0 {
		return 0
	}
	return 100 * float64(t.Errors) / float64(t.Traces)
}

// AvgDuration returns the mean duration, 0 without traces.
func (t *Totals) AvgDuration() time.Duration {
	if t.Traces == 0 {
		return 0
	}
	return t.DurationSum / time.Duration(t.Traces)
}

// AvgCostUSD returns the mean cost in dollars, to 12 digits after the point, 0 without traces: the
// division leaves digits that no cost has, such as 0.33749999999999997.
func (t *Totals) AvgCostUSD() float64 {
	if t.Traces == 0 {
		return 0
	}
	return math.Round(t.Cost.USD()/float64(t.Traces)*1e12) / 1e12
}

// StatsGroup is the totals of one value of the grouping dimension. Only the fields of
// that dimension are set.
type StatsGroup struct {
	AgentID       string // empty for an agent that is known by name only
	AgentName     string // the current name, or the last name of a deleted agent
	ModelProvider string
	ModelName     string
	Environment   string
	ToolName      string
	RuleID        string
	ClientName    string
	Totals
}

// SpendQuery asks for the cost of traces that were created in [From, To): of an agent, of an
// environment, of the agents that belonged to a team when their traces were recorded, or of the
// tenant.
type SpendQuery struct {
	Payer
	From, To time.Time
}

// Stats is the result of a StatsQuery. From and To are the bounds that were used:
// From is rounded down and To up to a whole minute, so that the newest traces are
// included; where [TenantTraces.Expire] has removed the statistics by the minute,
// and by a dimension of names, they are rounded to a whole hour.
type Stats struct {
	From, To time.Time
	Summary  Totals
	Groups   []StatsGroup // by cost, then traces, both descending, then by name; empty without GroupBy
}

// Statistics answers queries from rollups that are written together with the traces,
// so that both always agree. Rollups are kept longer than the traces.
type Statistics interface {
	// Stats aggregates the traces of a window. An unknown AgentID gives zeros.
	Stats(ctx context.Context, q StatsQuery) (Stats, error)
	// Spend answers many queries in one call, in their order, such as one for each
	// budget of a tenant. From and To are rounded as in Stats. The result for a payer
	// that is empty or unknown is 0.
	Spend(ctx context.Context, q []SpendQuery) ([]NanoUSD, error)
	// PolicyFires returns for each of the policies how many traces it fired in;
	// policies that no trace names are left out. Traces that named a policy before it
	// existed, and a deleted policy, may or may not be counted.
	PolicyFires(ctx context.Context, ids []string) (map[string]int64, error)
	// ListTools returns the tools that traces of an agent named, newest first by the
	// time of their first trace. The list is empty for an unknown id. Callers must
	// not ask for deleted agents.
	ListTools(ctx context.Context, agentID string, page Page) ([]AgentTool, int, error)
}
