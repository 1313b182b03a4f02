package ui

func listTraces(v *visit) error { return v.show("traces", nil) }
