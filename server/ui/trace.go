package ui

func showTrace(v *visit) error { return v.show("trace", nil) }
