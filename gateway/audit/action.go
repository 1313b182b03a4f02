package audit

// The actions that an audit line may have (gateway specification, Audit records).
const (
	ActionAllow            = "allow"
	ActionDeny             = "deny"
	ActionRedact           = "redact"
	ActionRateLimitBlocked = "rate_limit_blocked"
	ActionStripApp         = "strip_app"
)
