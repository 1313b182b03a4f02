package api

import (
	"slices"
	"time"
)

// Allowed values of the cost endpoints.
var (
	// BreakdownPeriods are the periods of GET /api/costs/breakdown.
	BreakdownPeriods = []string{"1d", "7d", "30d", "90d"}
	// GroupBys are the groupings of the breakdown and of trace statistics.
	GroupBys = []string{"agent", "model", "environment", "tool", "rule", "client"}
	// BudgetPeriods are a budget's periods: UTC day, ISO week, calendar month.
	BudgetPeriods = []string{"daily", "weekly", "monthly"}
	// BudgetScopes are what a budget can limit.
	BudgetScopes = []string{"agent", "environment", "team", "tenant"}
	// EvaluationPeriods are the windows an SLA target may be evaluated over.
	EvaluationPeriods = []string{"1h", "24h", "7d", "30d"}
	// ViolationPeriods are the look-back windows of GET /api/costs/sla/violations.
	ViolationPeriods = []string{"1h", "24h", "7d"}
)

// Defaults of the cost endpoints' query parameters.
const (
	DefaultBreakdownPeriod = "30d"
	DefaultGroupBy         = "agent"
	DefaultViolationPeriod = "24h"
)

// CostBreakdown is the response to GET /api/costs/breakdown, whose members are at
// top level.
type CostBreakdown struct {
	Period       string      `json:"period"`
	GroupBy      string      `json:"groupBy"`
	TotalCostUSD float64     `json:"totalCostUsd"`
	Data         []CostEntry `json:"data"`
}

// CostEntry is one group of a breakdown. The fields that name the group depend on
// groupBy: agentId and agentName; modelProvider and modelName; environment; toolName; ruleId; clientName. They
// are nil for the other groupings and may be empty strings.
type CostEntry struct {
	GroupKey
	TotalCostUSD    float64 `json:"totalCostUsd"`
	InputTokens     int64   `json:"inputTokens"`
	OutputTokens    int64   `json:"outputTokens"`
	TraceCount      int64   `json:"traceCount"`
	AvgCostPerTrace float64 `json:"avgCostPerTrace"`
}

// GroupKey names a group of a breakdown or of trace statistics.
type GroupKey struct {
	AgentID       *string `json:"agentId,omitempty"`
	AgentName     *string `json:"agentName,omitempty"`
	ModelProvider *string `json:"modelProvider,omitempty"`
	ModelName     *string `json:"modelName,omitempty"`
	Environment   *string `json:"environment,omitempty"`
	ToolName      *string `json:"toolName,omitempty"`
	RuleID        *string `json:"ruleId,omitempty"`
	ClientName    *string `json:"clientName,omitempty"`
}

// Budget is a spending limit of an agent, an environment, a team or the tenant; CurrentUSD is
// computed from traces. The members that its scope does not have are null.
type Budget struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Scope       string    `json:"scope"`
	AgentID     *string   `json:"agentId"`
	AgentName   *string   `json:"agentName"`
	Environment *string   `json:"environment"`
	TeamID      *string   `json:"teamId"`
	TeamName    *string   `json:"teamName"`
	Period      string    `json:"period"`
	LimitUSD    float64   `json:"limitUsd"`
	WarnAt      []int     `json:"warnAt"`
	CurrentUSD  float64   `json:"currentUsd"`
	PercentUsed float64   `json:"percentUsed"`
	ResetAt     time.Time `json:"resetAt"`
}

// Payer returns the name of what the budget limits: of the agent, the environment or the team; empty
// for the tenant.
func (b *Budget) Payer() string {
	for _, name := range []*string{b.AgentName, b.Environment, b.TeamName} {
		if name != nil {
			return *name
		}
	}
	return ""
}

// BudgetCreate is the body of POST /api/costs/budgets. Scope is agent if it is empty; AgentID,
// Environment and TeamID are required for their scopes. The control plane checks that, and that they
// are not given for other scopes. WarnAt has percentages of the limit.
type BudgetCreate struct {
	Name        string   `json:"name"`
	Scope       string   `json:"scope,omitempty"`
	AgentID     string   `json:"agentId,omitempty"`
	Environment string   `json:"environment,omitempty"`
	TeamID      string   `json:"teamId,omitempty"`
	Period      string   `json:"period"`
	LimitUSD    *float64 `json:"limitUsd"`
	WarnAt      WarnAt   `json:"warnAt,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *BudgetCreate) Validate() map[string]string {
	var c check
	c.newName("name", &b.Name, budgetID)
	if c.enum("scope", b.Scope, BudgetScopes); b.AgentID == "" && (b.Scope == "" || b.Scope == BudgetScopes[0]) {
		c.add("agentId", required)
	}
	c.payer(b.AgentID, b.Environment, b.TeamID)
	c.requiredEnum("period", b.Period, BudgetPeriods)
	c.warnAt(b.WarnAt)
	if b.LimitUSD == nil {
		c.add("limitUsd", required)
	} else {
		c.positive("limitUsd", *b.LimitUSD, MaxLimitUSD)
	}
	return c.details()
}

// payer checks the form of what a budget limits.
func (c *check) payer(agentID, environment, teamID string) {
	c.id("agentId", agentID)
	c.text("environment", environment, MaxName)
	c.id("teamId", teamID)
}

// MaxWarnAt bounds the percentages of a budget at which there is an event.
const MaxWarnAt = 2

// WarnAt are percentages of the limit of a budget.
type WarnAt = Bounded[int, warnBound]

func (c *check) warnAt(list []int) {
	for i, percent := range list {
		if percent < 1 || percent > 99 {
			c.add("warnAt", "must be percentages from 1 to 99")
		} else if slices.Contains(list[:i], percent) {
			c.add("warnAt", "must have no percentage twice")
		}
	}
}

// BudgetUpdate is the body of PUT /api/costs/budgets/:id. Absent fields are not
// changed. Another scope removes the member of the old one.
type BudgetUpdate struct {
	Name        *string  `json:"name,omitempty"`
	Scope       *string  `json:"scope,omitempty"`
	AgentID     *string  `json:"agentId,omitempty"`
	Environment *string  `json:"environment,omitempty"`
	TeamID      *string  `json:"teamId,omitempty"`
	Period      *string  `json:"period,omitempty"`
	LimitUSD    *float64 `json:"limitUsd,omitempty"`
	WarnAt      *WarnAt  `json:"warnAt,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *BudgetUpdate) Validate() map[string]string {
	var c check
	c.optionalName("name", b.Name, budgetID)
	if b.Scope != nil {
		c.requiredEnum("scope", *b.Scope, BudgetScopes)
	}
	c.payer(textOf(b.AgentID), textOf(b.Environment), textOf(b.TeamID))
	if b.WarnAt != nil {
		c.warnAt(*b.WarnAt)
	}
	if b.Period != nil {
		c.requiredEnum("period", *b.Period, BudgetPeriods)
	}
	if b.LimitUSD != nil {
		c.positive("limitUsd", *b.LimitUSD, MaxLimitUSD)
	}
	return c.details()
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// SLATarget is a service-level target of an agent. A target that is not set is
// null; the current measurements are always numbers, zero without traces.
type SLATarget struct {
	ID               string   `json:"id"`
	Name             string   `json:"name"`
	AgentID          string   `json:"agentId"`
	AgentName        string   `json:"agentName"`
	P99LatencyMs     *float64 `json:"p99LatencyMs"`
	ErrorRatePercent *float64 `json:"errorRatePercent"`
	EvaluationPeriod string   `json:"evaluationPeriod"`
	CurrentP99Ms     float64  `json:"currentP99Ms"`
	CurrentErrorRate float64  `json:"currentErrorRate"`
	Status           string   `json:"status"`
}

// SLACreate is the body of POST /api/costs/sla. At least one of the two
// targets is required.
type SLACreate struct {
	Name             string   `json:"name"`
	AgentID          string   `json:"agentId"`
	P99LatencyMs     *float64 `json:"p99LatencyMs,omitempty"`
	ErrorRatePercent *float64 `json:"errorRatePercent,omitempty"`
	EvaluationPeriod string   `json:"evaluationPeriod"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *SLACreate) Validate() map[string]string {
	var c check
	c.newName("name", &b.Name, slaID)
	c.requiredID("agentId", b.AgentID)
	c.requiredEnum("evaluationPeriod", b.EvaluationPeriod, EvaluationPeriods)
	if b.P99LatencyMs == nil && b.ErrorRatePercent == nil {
		c.add("p99LatencyMs", "p99LatencyMs or errorRatePercent is required")
	}
	c.targets(b.P99LatencyMs, b.ErrorRatePercent)
	return c.details()
}

// targets checks those of the two targets of an SLA that are given.
func (c *check) targets(latency, rate *float64) {
	if latency != nil {
		c.positive("p99LatencyMs", *latency, MaxDurationMs)
	}
	if rate != nil {
		c.number("errorRatePercent", *rate, 0, 100)
	}
}

// SLAUpdate is the body of PUT /api/costs/sla/:id. Absent fields are not changed.
type SLAUpdate struct {
	Name             *string  `json:"name,omitempty"`
	AgentID          *string  `json:"agentId,omitempty"`
	P99LatencyMs     *float64 `json:"p99LatencyMs,omitempty"`
	ErrorRatePercent *float64 `json:"errorRatePercent,omitempty"`
	EvaluationPeriod *string  `json:"evaluationPeriod,omitempty"`
}

// Validate returns what is wrong with the body, keyed by field.
func (b *SLAUpdate) Validate() map[string]string {
	var c check
	c.optionalName("name", b.Name, slaID)
	if b.AgentID != nil {
		c.requiredID("agentId", *b.AgentID)
	}
	if b.EvaluationPeriod != nil {
		c.requiredEnum("evaluationPeriod", *b.EvaluationPeriod, EvaluationPeriods)
	}
	c.targets(b.P99LatencyMs, b.ErrorRatePercent)
	return c.details()
}

// SLAViolation is one period in which an agent missed a target. A target that
// is not set is null.
type SLAViolation struct {
	ID              string    `json:"id"`
	SLAID           string    `json:"slaId"`
	SLAName         string    `json:"slaName"`
	AgentName       string    `json:"agentName"`
	PeriodStart     time.Time `json:"periodStart"`
	PeriodEnd       time.Time `json:"periodEnd"`
	ViolationType   string    `json:"violationType"`
	TargetP99Ms     *float64  `json:"targetP99Ms"`
	ActualP99Ms     float64   `json:"actualP99Ms"`
	TargetErrorRate *float64  `json:"targetErrorRate"`
	ActualErrorRate float64   `json:"actualErrorRate"`
}
