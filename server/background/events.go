package background

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"svc/store"
)

// eventsAtOnce bounds the events that one transaction queues for each webhook.
const eventsAtOnce = 500

// note queues events about states of subjects of a kind. next gets what was said last, by the id of
// the subject (nil: nothing is known), changes a copy of it, and returns the copy and the events. It is
// called again while it returns more than eventsAtOnce events, of which the first are queued, so it
// leaves what was said about a subject as it is when add refuses the subject's events.
func note[M any](ctx context.Context, t store.Tenant, kind string, next func(last map[string]M, add func(...store.Event) bool) map[string]M) error {
	for more := true; more; {
		err := t.NotifyOnce(ctx, kind, func(mark string) (string, []store.Event) {
			var events []store.Event
			var last map[string]M
			_ = json.Unmarshal([]byte(mark), &last) // empty at first
			more = false
			said := next(last, func(list ...store.Event) bool {
				if more = more || len(events)+len(list) > eventsAtOnce; more {
					return false
				}
				events = append(events, list...)
				return true
			})
			text, _ := json.Marshal(said) // plain values: never fails
			return string(text), events
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// noteTargets queues messages about targets that are missed, or met again, from measurements by the id
// of the target, oldest first. Without data the state of a target stays.
func noteTargets(ctx context.Context, t store.Tenant, targets []store.SLATarget, measured map[string][]Assessment) error {
	if len(targets) == 0 {
		return nil
	}
	return note(ctx, t, "slaTargets", func(last map[string]bool, add func(...store.Event) bool) map[string]bool {
		missed := map[string]bool{}
		for i := range targets {
			target, events := &targets[i], []store.Event(nil)
			now := last[target.ID]
			for _, s := range measured[target.ID] {
				if breached := s.Status == stateBreached; s.Status != stateNoData && breached != now {
					typ := store.EventSLARecovered
					if now = breached; breached {
						typ = store.EventSLABreached
					}
					events = append(events, store.SLAEvent(typ, target, s.P99Ms, s.ErrorRate))
				}
			}
			if !add(events...) {
				now = last[target.ID]
			}
			if now {
				missed[target.ID] = true
			}
		}
		return missed
	})
}

// fired is what was said last about a policy.
type fired struct {
	Count int64 // of the policy, in all
	At    int64 // Unix time of the last message; 0: there was none
}

// firedEvery is the least time between two messages about a policy; passes are a minute apart, and
// some a little less.
const firedEvery = time.Minute - time.Second

// notePolicies queues messages about policies that fired since the last ones. Counts are compared,
// so that traces cost nothing, wherever they are stored.
func (e *Evaluator) notePolicies(ctx context.Context, t store.Tenant, now time.Time) error {
	list, _, err := t.ListPolicies(ctx, store.PolicyFilter{}, store.Page{})
	if err != nil || len(list) == 0 {
		return err
	}
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	counts, err := e.Traces.TracesOf(t.ID()).PolicyFires(ctx, ids)
	if err != nil {
		return err
	}
	return note(ctx, t, "policies", func(last map[string]fired, add func(...store.Event) bool) map[string]fired {
		next := make(map[string]fired, len(list))
		for i := range list {
			p := &list[i]
			f, n := last[p.ID], counts[p.ID]
			switch due := now.Unix()-f.At >= int64(firedEvery/time.Second); {
			case last == nil || n < f.Count: // nothing is known of the time before; or a restore of the traces
				f.Count = n
			case n > f.Count && due && add(store.PolicyFiredEvent(p, n-f.Count)):
				f = fired{n, now.Unix()}
			}
			next[p.ID] = f
		}
		return next
	})
}

// budgetMark is what events of a budget in a period have been about. Each percentage has one event in
// a period; a percentage that another limit moves out of reach can have another one.
type budgetMark struct {
	From, To time.Time
	Payer    store.Payer
	Limit    store.NanoUSD
	Passed   []int // percentages of the limit
}

// Spent returns what each of some budgets has spent in its period that contains now, with one query.
func Spent(ctx context.Context, t store.TenantTraces, now time.Time, budgets []store.Budget) ([]store.NanoUSD, error) {
	asked := make([]store.SpendQuery, len(budgets))
	for i := range budgets {
		from, to := budgets[i].Period.Window(now)
		asked[i] = store.SpendQuery{Payer: budgets[i].Payer, From: from, To: to}
	}
	return t.Spend(ctx, asked)
}

// budgets queues the events of budgets whose spending has reached a percentage of their limits.
func (e *Evaluator) budgets(ctx context.Context, t store.Tenant, now time.Time) error {
	list, err := t.ListBudgets(ctx)
	if err != nil || len(list) == 0 {
		return err
	}
	spent, err := Spent(ctx, e.Traces.TracesOf(t.ID()), now, list)
	if err != nil {
		return err
	}
	return note(ctx, t, "budgets", func(last map[string]budgetMark, add func(...store.Event) bool) map[string]budgetMark {
		next := map[string]budgetMark{}
		for i := range list {
			id := list[i].ID
			m, events := passed(&list[i], spent[i], now, last[id])
			if len(m.Passed) == 0 || !add(events...) { // the clock may go back to the last period
				m = last[id]
			}
			if len(m.Passed) > 0 {
				next[id] = m
			}
		}
		return next
	})
}

// clockBack is how far a clock may go back, or the clocks of two processes differ, without events of a
// period that has ended.
const clockBack = time.Hour

// passed returns the mark of a budget after an amount was spent, and the events since a mark.
func passed(b *store.Budget, spent store.NanoUSD, now time.Time, m budgetMark) (next budgetMark, events []store.Event) {
	from, to := b.Period.Window(now)
	if ahead := m.From.Sub(now); m.Payer == b.Payer && ahead > 0 && ahead < clockBack {
		return m, nil
	}
	if !m.From.Equal(from) || !m.To.Equal(to) || m.Payer != b.Payer {
		m = budgetMark{From: from, To: to, Payer: b.Payer, Limit: b.Limit}
	}
	reached := func(percent int) bool {
		return spent >= b.Limit || percent < 100 && 100*float64(spent) >= float64(b.Limit)*float64(percent)
	}
	if m.Limit != b.Limit {
		m.Limit = b.Limit
		m.Passed = slices.DeleteFunc(slices.Clone(m.Passed), func(percent int) bool { return !reached(percent) })
	}
	for _, percent := range append(slices.Clone(b.WarnAt), 100) {
		if reached(percent) && !slices.Contains(m.Passed, percent) {
			m.Passed = append(m.Passed, percent)
			events = append(events, store.BudgetEvent(b, percent, spent, to))
		}
	}
	return m, events
}

// gateways queues the events of gateways of which all running processes have become silent, or of which one
// is heard again. One that has stopped is not silent.
func (e *Evaluator) gateways(ctx context.Context, t store.Tenant, now time.Time) error {
	if now.Before(e.began.Add(store.GatewaySilent)) {
		return nil // it has not heard of those that run
	}
	list, err := t.ListGateways(ctx)
	if err != nil || len(list) == 0 {
		return err
	}
	return note(ctx, t, "gateways", func(last map[string]bool, add func(...store.Event) bool) map[string]bool {
		silent := map[string]bool{}
		for from := 0; from < len(list); {
			name, to := list[from].Gateway, from
			var seen time.Time
			for ; to < len(list) && list[to].Gateway == name; to++ {
				if list[to].SeenAt.After(seen) {
					seen = list[to].SeenAt
				}
			}
			running, gone := store.GatewayRuns(list[from:to], now, e.began)
			is := running == 0 && gone > 0
			if is != last[name] && !add(gatewayEvents(is, running, name, seen, gone+running)...) {
				is = last[name]
			}
			if is {
				silent[name] = true
			}
			from = to
		}
		return silent
	})
}

// gatewayEvents are the events of a gateway whose state has changed. One that has stopped after it was silent
// is not back.
func gatewayEvents(silent bool, running int, name string, seen time.Time, instances int) []store.Event {
	switch {
	case silent:
		return []store.Event{store.GatewayEvent(store.EventGatewaySilent, name, seen, instances)}
	case running > 0:
		return []store.Event{store.GatewayEvent(store.EventGatewayBack, name, seen, instances)}
	}
	return nil
}
