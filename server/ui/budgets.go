package ui

import (
	"cmp"
	"slices"

	"svc/server/client"
	"svc/server/display"
	"svc/store/api"
)

func listBudgets(v *visit) error {
	list, err := v.api.ListBudgets(v.Context())
	if err != nil {
		return err
	}
	over, near := 0, 0
	slices.SortStableFunc(list.Data, func(a, b api.Budget) int { return cmp.Compare(b.PercentUsed, a.PercentUsed) })
	for _, b := range list.Data {
		switch display.BudgetState(b.PercentUsed).Level {
		case display.Bad:
			over++
		case display.Warn:
			near++
		}
	}
	budgets, pages := slice(v, list.Data, listed)
	d := view{"Over": over, "Near": near, "Budgets": budgets, "Total": list.Total, "Pages": pages}
	if v.may("GET", "/api/costs/sla") {
		targets, err := v.api.ListSLAs(v.Context())
		if err != nil {
			return err
		}
		order := []string{"breached", "at_risk", "healthy", "no_data"}
		slices.SortStableFunc(targets.Data, func(a, b api.SLATarget) int {
			return cmp.Compare(slices.Index(order, a.Status), slices.Index(order, b.Status))
		})
		d["SLAs"], d["SLATotal"] = targets.Data[:min(len(targets.Data), listed)], targets.Total
	}
	if v.may("GET", "/api/costs/sla/violations") {
		missed, err := v.api.ListViolations(v.Context(), client.ViolationQuery{Period: "7d", Page: client.Page{Limit: listed}})
		if err != nil {
			return err
		}
		d["Violations"], d["Violated"] = missed.Data, missed.Total
	}
	return v.show("budgets", d)
}
