package postgres

import (
	"context"
	"time"

	"svc/store"
)

var budgets = &kind[store.Budget]{
	noun: "budget", prefix: store.PrefixBudget, table: "budgets", object: (*store.Budget).Object, unique: true, governs: true,
	whole: func(d *data, list []store.Budget) error {
		return nameAgents(d, list, func(b *store.Budget) (string, *string) { return b.AgentID, &b.AgentName })
	},
}

// ListBudgets returns all budgets, newest first.
func (t *tenant) ListBudgets(ctx context.Context) ([]store.Budget, error) {
	list, _, err := listOf(ctx, t, budgets, store.Page{})
	return list, err
}

// GetBudget returns one budget.
func (t *tenant) GetBudget(ctx context.Context, id string) (store.Budget, error) {
	return getOne(ctx, t, budgets, id)
}

// CreateBudget creates a budget.
func (t *tenant) CreateBudget(ctx context.Context, in store.BudgetCreate) (store.Budget, error) {
	return createOne(ctx, t, budgets, func(d *data, id string, now time.Time) (store.Budget, error) {
		return in.Make(id, now), d.knownAgent(in.AgentID)
	})
}

// UpdateBudget changes a budget.
func (t *tenant) UpdateBudget(ctx context.Context, id string, up store.BudgetUpdate) (store.Budget, error) {
	return updateOne(ctx, t, budgets, id, func(d *data, b *store.Budget, now time.Time) error {
		up.Apply(b, now)
		return d.newAgent(up.AgentID)
	})
}

// DeleteBudget removes a budget.
func (t *tenant) DeleteBudget(ctx context.Context, id string) error {
	return deleteOne(ctx, t, budgets, id)
}
