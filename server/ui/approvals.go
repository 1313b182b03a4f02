package ui

func listApprovals(v *visit) error { return v.show("approvals", nil) }

func showApproval(v *visit) error { return v.show("approval", nil) }

func decideApproval(v *visit) error { return nil }
