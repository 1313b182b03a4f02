package ui

func listBudgets(v *visit) error { return v.show("budgets", nil) }
