package ui

func listPolicies(v *visit) error { return v.show("policies", nil) }

func showPolicy(v *visit) error { return v.show("policy", nil) }

func changePolicy(v *visit) error { return nil }
