package ui

func listAgents(v *visit) error { return v.show("agents", nil) }

func showAgent(v *visit) error { return v.show("agent", nil) }
