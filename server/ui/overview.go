package ui

func overview(v *visit) error { return v.show("overview", nil) }
