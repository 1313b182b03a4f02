package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

// BudgetScope is the kind of what a budget limits.
type BudgetScope string

// The scopes of budgets.
const (
	AgentBudget       BudgetScope = "agent"
	EnvironmentBudget BudgetScope = "environment"
	TeamBudget        BudgetScope = "team"
	TenantBudget      BudgetScope = "tenant"
)

// Payer is what spends: an agent, an environment, a team, or the tenant.
type Payer struct {
	Scope       BudgetScope `json:",omitempty"` // empty: [AgentBudget]
	AgentID     string      `json:",omitempty"`
	Environment string      `json:",omitempty"`
	TeamID      string      `json:",omitempty"`
}

// Check rejects a payer that lacks the member of its scope, or has that of another scope.
func (p Payer) Check() error {
	wrong := map[string]string{}
	for _, m := range [...]struct {
		scope        BudgetScope
		field, value string
	}{{AgentBudget, "agentId", p.AgentID}, {EnvironmentBudget, "environment", p.Environment}, {TeamBudget, "teamId", p.TeamID}} {
		switch of := cmp.Or(p.Scope, AgentBudget); {
		case of == m.scope && m.value == "":
			wrong[m.field] = "is required"
		case of != m.scope && m.value != "":
			wrong[m.field] = fmt.Sprintf("is for budgets of the scope %s, and this one has the scope %s", m.scope, of)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Message: "the members of the budget do not fit its scope", Fields: wrong}
}

// Budget limits what a payer may spend in a period. The amount spent is not
// stored here: it is computed from traces, see [TenantTraces.Spend].
type Budget struct {
	ID   string
	Name string // unique in the tenant
	Payer
	AgentName string // the agent's current name, or its last name when deleted
	TeamName  string `json:",omitempty"` // the team's current name
	Period    BudgetPeriod
	Limit     NanoUSD
	WarnAt    []int  `json:",omitempty"` // percentages of the limit, ascending
	Set       string `json:",omitempty"` // labels of the documents that declare it; empty: none
	CreatedAt time.Time
	UpdatedAt time.Time
}

// BudgetCreate is the input of CreateBudget.
type BudgetCreate struct {
	Name string
	Payer
	Period BudgetPeriod
	Limit  NanoUSD
	WarnAt []int
}

// BudgetUpdate is a partial update; nil fields keep their value. Another Scope removes the members
// of the old one.
type BudgetUpdate struct {
	Name        *string
	Scope       *BudgetScope
	AgentID     *string
	Environment *string
	TeamID      *string
	Period      *BudgetPeriod
	Limit       *NanoUSD
	WarnAt      *[]int
}

// Budgets manages the budgets of a tenant.
type Budgets interface {
	// ListBudgets returns all budgets, newest first.
	ListBudgets(ctx context.Context) ([]Budget, error)
	// GetBudget returns NotFound for an unknown id.
	GetBudget(ctx context.Context, id string) (Budget, error)
	// CreateBudget returns Conflict when the name is taken, Invalid for an unknown agent
	// ("agentId") or team ("teamId") and for what [Payer.Check] rejects.
	CreateBudget(ctx context.Context, in BudgetCreate) (Budget, error)
	// UpdateBudget returns NotFound for an unknown id, and otherwise the errors
	// of CreateBudget.
	UpdateBudget(ctx context.Context, id string, up BudgetUpdate) (Budget, error)
	// DeleteBudget returns NotFound for an unknown id.
	DeleteBudget(ctx context.Context, id string) error
}

// Make returns the new budget.
func (in BudgetCreate) Make(id string, now time.Time) Budget {
	return Budget{ID: id, Name: in.Name, Payer: in.Payer, Period: in.Period, Limit: in.Limit, WarnAt: sorted(in.WarnAt), CreatedAt: now, UpdatedAt: now}
}

// Apply applies the update.
func (up BudgetUpdate) Apply(b *Budget, now time.Time) {
	set(&b.Name, up.Name)
	if up.Scope != nil && *up.Scope != cmp.Or(b.Scope, AgentBudget) {
		b.Payer = Payer{Scope: *up.Scope}
	}
	set(&b.AgentID, up.AgentID)
	set(&b.Environment, up.Environment)
	set(&b.TeamID, up.TeamID)
	set(&b.Period, up.Period)
	set(&b.Limit, up.Limit)
	if up.WarnAt != nil {
		b.WarnAt = sorted(*up.WarnAt)
	}
	b.UpdatedAt = now
}

// sorted returns a sorted copy of percentages, nil for none.
func sorted(list []int) []int {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// Object is the budget as audit events record it.
func (b *Budget) Object() *Object {
	fields := map[string]any{"name": b.Name, "period": string(b.Period), "limitUsd": int64(b.Limit)}
	if of := cmp.Or(b.Scope, AgentBudget); of == AgentBudget {
		fields["agentId"] = b.AgentID
	} else {
		fields["scope"] = string(of)
	}
	if b.Environment != "" {
		fields["environment"] = b.Environment
	}
	if b.TeamID != "" {
		fields["teamId"] = b.TeamID
	}
	if len(b.WarnAt) > 0 {
		fields["warnAt"] = b.WarnAt
	}
	return newObject("budget", b.ID, b.Name, b.Set, fields)
}
