package ui

import (
	"cmp"
	"slices"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

func init() {
	functions["budgetState"], functions["slaState"] = func(b budgetRow) display.Word { return display.BudgetState(b.PercentUsed) }, display.SLAState
	functions["p99"] = func(t api.SLATarget) display.Word {
		return display.Against(t.Status, t.CurrentP99Ms, t.P99LatencyMs, display.Millis)
	}
	functions["errors"] = func(t api.SLATarget) display.Word {
		return display.Against(t.Status, t.CurrentErrorRate, t.ErrorRatePercent, display.Percent)
	}
	functions["missed"] = display.Missed
}

// budgetRow is a budget with the page of what it limits, empty for none.
type budgetRow struct {
	api.Budget
	Path string
}

// Part is how full the bar of the budget is.
func (b budgetRow) Part() float64 { return min(max(b.PercentUsed, 0), 100) }

// budgetsData is what the page of budgets and SLA targets shows.
type budgetsData struct {
	Over, Near int // budgets of all pages
	Budgets    []budgetRow
	Total      int
	Pages      pager
	SLAs       []api.SLATarget
	SLATotal   int
	Seen       bool // the key may see SLA targets
	Agents     bool // and agents
	Violations []api.SLAViolation
	Violated   int
	Missed     bool // the key may see violations
}

func listBudgets(v *visit) error {
	list, err := v.api.ListBudgets(v.Context())
	if err != nil {
		return err
	}
	d := budgetsData{Total: list.Total, Seen: v.may("GET", "/api/costs/sla"), Agents: v.may("GET", "/api/agents/{id}"), Missed: v.may("GET", "/api/costs/sla/violations")}
	slices.SortStableFunc(list.Data, func(a, b api.Budget) int { return cmp.Compare(b.PercentUsed, a.PercentUsed) })
	for _, b := range list.Data {
		switch display.BudgetState(b.PercentUsed).Level {
		case display.Bad:
			d.Over++
		case display.Warn:
			d.Near++
		}
	}
	shown, pages := slice(v, list.Data, listed)
	d.Pages = pages
	for _, b := range shown {
		row := budgetRow{Budget: b}
		if b.AgentID != nil && d.Agents {
			row.Path = path("agents", *b.AgentID)
		}
		d.Budgets = append(d.Budgets, row)
	}
	if d.Seen {
		targets, err := v.api.ListSLAs(v.Context())
		if err != nil {
			return err
		}
		order := []string{"breached", "at_risk", "healthy", "no_data"}
		slices.SortStableFunc(targets.Data, func(a, b api.SLATarget) int {
			return cmp.Compare(slices.Index(order, a.Status), slices.Index(order, b.Status))
		})
		d.SLAs, d.SLATotal = targets.Data[:min(len(targets.Data), listed)], targets.Total
	}
	if d.Missed {
		missed, err := v.api.ListViolations(v.Context(), client.ViolationQuery{Period: "7d", Page: client.Page{Limit: listed}})
		if err != nil {
			return err
		}
		d.Violations, d.Violated = missed.Data, missed.Total
	}
	return v.show("budgets", d)
}
