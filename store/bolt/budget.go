package bolt

import (
	"context"

	"go.etcd.io/bbolt"

	"svc/store"
)

// ListBudgets returns all budgets, newest first.
func (t *tenant) ListBudgets(ctx context.Context) (list []store.Budget, err error) {
	err = t.view(ctx, func(d data) error {
		if list, _, err = newest[store.Budget](d.in(inBudgets), store.Page{}, nil); err != nil {
			return err
		}
		for i := range list {
			if list[i].AgentName, err = agentName(d, list[i].AgentID); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

// GetBudget returns one budget.
func (t *tenant) GetBudget(ctx context.Context, id string) (b store.Budget, err error) {
	err = t.view(ctx, func(d data) error {
		b, err = budgetByID(d, id)
		return err
	})
	return b, err
}

func budgetByID(d data, id string) (store.Budget, error) {
	b, err := findJSON[store.Budget](d.in(inBudgets), "budget", id)
	if err == nil {
		b.AgentName, err = agentName(d, b.AgentID)
	}
	return b, err
}

// CreateBudget makes a budget.
func (t *tenant) CreateBudget(ctx context.Context, in store.BudgetCreate) (b store.Budget, err error) {
	err = t.create(ctx, func() any { return b }, func(_ *bbolt.Tx, d data) error {
		if err := knownAgent(d, in.AgentID); err != nil {
			return err
		}
		now := t.s.now().UTC()
		b = store.Budget{ID: t.s.ids.New(store.PrefixBudget, now), Name: in.Name, AgentID: in.AgentID,
			Period: in.Period, Limit: in.Limit, CreatedAt: now, UpdatedAt: now}
		if err := claimName(d.in(inBudgetNames), "budget", "", in.Name, b.ID); err != nil {
			return err
		}
		if err := putJSON(d.in(inBudgets), b.ID, b); err != nil {
			return err
		}
		b, err = budgetByID(d, b.ID)
		return err
	})
	return b, err
}

// UpdateBudget changes a budget.
func (t *tenant) UpdateBudget(ctx context.Context, id string, up store.BudgetUpdate) (b store.Budget, err error) {
	err = t.update(ctx, func(_ *bbolt.Tx, d data) error {
		if b, err = budgetByID(d, id); err != nil {
			return err
		}
		if up.Name != nil {
			if err := claimName(d.in(inBudgetNames), "budget", b.Name, *up.Name, id); err != nil {
				return err
			}
			b.Name = *up.Name
		}
		if up.AgentID != nil {
			if err := knownAgent(d, *up.AgentID); err != nil {
				return err
			}
			b.AgentID = *up.AgentID
		}
		if up.Period != nil {
			b.Period = *up.Period
		}
		if up.Limit != nil {
			b.Limit = *up.Limit
		}
		b.UpdatedAt = t.s.now().UTC()
		if err := putJSON(d.in(inBudgets), id, b); err != nil {
			return err
		}
		b, err = budgetByID(d, id)
		return err
	})
	return b, err
}

// DeleteBudget removes a budget.
func (t *tenant) DeleteBudget(ctx context.Context, id string) error {
	return t.update(ctx, func(_ *bbolt.Tx, d data) error {
		b, err := budgetByID(d, id)
		if err != nil {
			return err
		}
		if err := d.in(inBudgetNames).Delete([]byte(b.Name)); err != nil {
			return err
		}
		return d.in(inBudgets).Delete([]byte(id))
	})
}
