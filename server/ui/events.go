package ui

func listEvents(v *visit) error { return v.show("events", nil) }
