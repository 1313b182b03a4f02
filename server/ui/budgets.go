package ui

import (
	"cmp"
	"slices"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

// budgetsData is what the page of budgets and SLA targets shows.
type budgetsData struct {
	Over, Near int // budgets of all pages
	Budgets    []api.Budget
	Total      int
	Pages      pager
	SLAs       []api.SLATarget
	SLATotal   int
	Violations []api.SLAViolation
	Violated   int
}

func listBudgets(v *visit) error {
	list, err := v.api.ListBudgets(v.Context())
	if err != nil {
		return err
	}
	d := budgetsData{Total: list.Total}
	slices.SortStableFunc(list.Data, func(a, b api.Budget) int { return cmp.Compare(b.PercentUsed, a.PercentUsed) })
	for _, b := range list.Data {
		switch display.BudgetState(b.PercentUsed).Level {
		case display.Bad:
			d.Over++
		case display.Warn:
			d.Near++
		}
	}
	d.Budgets, d.Pages = slice(v, list.Data, listed)
	if v.may("GET", "/api/costs/sla") {
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
	if v.may("GET", "/api/costs/sla/violations") {
		missed, err := v.api.ListViolations(v.Context(), client.ViolationQuery{Period: "7d", Page: client.Page{Limit: listed}})
		if err != nil {
			return err
		}
		d.Violations, d.Violated = missed.Data, missed.Total
	}
	return v.show("budgets", d)
}
