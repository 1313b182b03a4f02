package ui

func listGateways(v *visit) error { return v.show("gateways", nil) }

func showGateway(v *visit) error { return v.show("gateway", nil) }
