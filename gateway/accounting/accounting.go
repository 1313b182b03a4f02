// Package accounting derives from the audit record of a finished request the attributes of its
// spans and metrics.
package accounting

import (
	"strconv"

	"svc/gateway/audit"
	"svc/gateway/refusal"
)

// Decision returns mcp.policy.decision: the effect of a rule on the request, if the rule did more
// than allow it. It is empty for a refusal that no rule caused.
func Decision(r *audit.Record) string {
	switch {
	case r.GuardrailName != "":
		return "guardrail"
	case len(r.PoliciesFired) > 0 && r.Action != audit.ActionAllow:
		return r.Action // a policy of the control plane denied, whichever rule allowed the request
	case r.RuleID == "" || r.Action == audit.ActionAllow:
		return ""
	}
	return r.Action
}

// ErrorType returns error.type: why the request failed, empty when it did not.
func ErrorType(r *audit.Record) string {
	switch {
	case r.ErrorKind != "":
		return r.ErrorKind
	case r.Action == audit.ActionDeny:
		return refusal.Policy.Reason
	case r.Action == audit.ActionRateLimitBlocked:
		return refusal.Rate.Reason
	case r.Status >= 500:
		return strconv.Itoa(r.Status)
	case r.IsError:
		return "_OTHER" // the semantic conventions' value for errors without a name
	}
	return ""
}
