package audit

import "slices"

// The actions that an audit line may have (gateway specification, Audit records).
const (
	ActionAllow            = "allow"
	ActionDeny             = "deny"
	ActionRedact           = "redact"
	ActionRateLimitBlocked = "rate_limit_blocked"
	ActionStripApp         = "strip_app"
)

var actions = []string{ActionAllow, ActionDeny, ActionRedact, ActionRateLimitBlocked, ActionStripApp}

// Actions returns all actions that an audit line may have.
func Actions() []string { return slices.Clone(actions) }
