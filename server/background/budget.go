package background

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"svc/store"
)

// budgetMark is what events of a budget in a period have been about. Each percentage has one event in
// a period; a percentage that another limit moves out of reach can have another one.
type budgetMark struct {
	From, To time.Time
	Payer    store.Payer
	Limit    store.NanoUSD
	Passed   []int // percentages of the limit
}

// budgets queues the events of budgets whose spending has reached a percentage of their limits.
func (e *Evaluator) budgets(ctx context.Context, t store.Tenant, now time.Time) error {
	list, err := t.ListBudgets(ctx)
	if err != nil || len(list) == 0 {
		return err
	}
	asked := make([]store.SpendQuery, len(list))
	for i := range list {
		from, to := list[i].Period.Window(now)
		asked[i] = store.SpendQuery{Payer: list[i].Payer, From: from, To: to}
	}
	spent, err := e.Traces.TracesOf(t.ID()).Spend(ctx, asked)
	for i := 0; err == nil && i < len(list); i++ {
		err = t.NotifyOnce(ctx, store.Subject{Kind: "budget", ID: list[i].ID}, func(mark string) (string, []store.Event) {
			return passed(&list[i], spent[i], now, mark)
		})
	}
	return err
}

// passed returns the mark of a budget after an amount was spent, and the events since a mark.
func passed(b *store.Budget, spent store.NanoUSD, now time.Time, mark string) (next string, events []store.Event) {
	var m budgetMark
	from, to := b.Period.Window(now)
	if json.Unmarshal([]byte(mark), &m) != nil || !m.From.Equal(from) || !m.To.Equal(to) || m.Payer != b.Payer {
		m = budgetMark{From: from, To: to, Payer: b.Payer, Limit: b.Limit}
	}
	reached := func(percent int) bool {
		return spent >= b.Limit || percent < 100 && 100*float64(spent) >= float64(b.Limit)*float64(percent)
	}
	if m.Limit != b.Limit {
		m.Limit = b.Limit
		m.Passed = slices.DeleteFunc(m.Passed, func(percent int) bool { return !reached(percent) })
	}
	for _, percent := range append(slices.Clone(b.WarnAt), 100) {
		if reached(percent) && !slices.Contains(m.Passed, percent) {
			m.Passed = append(m.Passed, percent)
			events = append(events, store.BudgetEvent(b, percent, spent, to))
		}
	}
	if len(m.Passed) == 0 {
		return "", nil
	}
	text, _ := json.Marshal(m) // plain values: never fails
	return string(text), events
}
