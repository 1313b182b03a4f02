package store

import (
	"context"
	"time"
)

// BudgetPeriod is the calendar period of a budget, in UTC.
type BudgetPeriod string

// The budget periods.
const (
	Daily   BudgetPeriod = "daily"   // UTC day
	Weekly  BudgetPeriod = "weekly"  // ISO week, from Monday
	Monthly BudgetPeriod = "monthly" // calendar month
)

// Window returns the period that contains a time: from inclusive, to exclusive;
// to is the time of the next reset. An unknown period is treated as Daily.
func (p BudgetPeriod) Window(now time.Time) (from, to time.Time) {
	now = now.UTC()
	y, m, d := now.Date()
	switch p {
	case Weekly:
		from = time.Date(y, m, d-(int(now.Weekday())+6)%7, 0, 0, 0, 0, time.UTC)
		return from, from.AddDate(0, 0, 7)
	case Monthly:
		from = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
		return from, from.AddDate(0, 1, 0)
	default:
		from = time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
		return from, from.AddDate(0, 0, 1)
	}
}

// Budget limits what an agent may spend in a period. The amount spent is not
// stored here: it is computed from traces, see [TenantTraces.Spend].
type Budget struct {
	ID        string
	Name      string // unique in the tenant
	AgentID   string
	AgentName string // the agent's current name, or its last name when deleted
	Period    BudgetPeriod
	Limit     NanoUSD
	Set       string `json:",omitempty"` // labels of the documents that declare it; empty: none
	CreatedAt time.Time
	UpdatedAt time.Time
}

// BudgetCreate is the input of CreateBudget.
type BudgetCreate struct {
	Name    string
	AgentID string
	Period  BudgetPeriod
	Limit   NanoUSD
}

// BudgetUpdate is a partial update; nil fields keep their value.
type BudgetUpdate struct {
	Name    *string
	AgentID *string
	Period  *BudgetPeriod
	Limit   *NanoUSD
}

// Budgets manages the budgets of a tenant.
type Budgets interface {
	// ListBudgets returns all budgets, newest first.
	ListBudgets(ctx context.Context) ([]Budget, error)
	// GetBudget returns NotFound for an unknown id.
	GetBudget(ctx context.Context, id string) (Budget, error)
	// CreateBudget returns Conflict when the name is taken, Invalid ("agentId")
	// for an unknown agent.
	CreateBudget(ctx context.Context, in BudgetCreate) (Budget, error)
	// UpdateBudget returns NotFound for an unknown id, and otherwise the errors
	// of CreateBudget.
	UpdateBudget(ctx context.Context, id string, up BudgetUpdate) (Budget, error)
	// DeleteBudget returns NotFound for an unknown id.
	DeleteBudget(ctx context.Context, id string) error
}

// Make returns the new budget.
func (in BudgetCreate) Make(id string, now time.Time) Budget {
	return Budget{ID: id, Name: in.Name, AgentID: in.AgentID, Period: in.Period, Limit: in.Limit, CreatedAt: now, UpdatedAt: now}
}

// Apply applies the update.
func (up BudgetUpdate) Apply(b *Budget, now time.Time) {
	set(&b.Name, up.Name)
	set(&b.AgentID, up.AgentID)
	set(&b.Period, up.Period)
	set(&b.Limit, up.Limit)
	b.UpdatedAt = now
}

// Object is the budget as audit events record it.
func (b *Budget) Object() *Object {
	return newObject("budget", b.ID, b.Name, b.Set, map[string]any{"name": b.Name, "agentId": b.AgentID, "period": string(b.Period), "limitUsd": int64(b.Limit)})
}
