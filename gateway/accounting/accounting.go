// Package accounting derives what is reported of a finished request from its audit
// record.
package accounting

import (
	"strconv"

	"svc/gateway/audit"
	"svc/gateway/refusal"
)

// Decision is mcp.policy.decision: what a rule did to the request, if it did more
// than let it pass. A refusal that no rule decided has none.
func Decision(r *audit.Record) string {
	switch {
	case r.GuardrailName != "":
		return "guardrail"
	case len(r.PoliciesFired) > 0 && r.Action != audit.ActionAllow:
		return r.Action // of a policy, whatever rule let it pass
	case r.RuleID == "" || r.Action == audit.ActionAllow:
		return ""
	}
	return r.Action
}

// ErrorType is error.type: why the request failed, empty when it did not.
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
		return "_OTHER" // the conventions' word for what has no name of its own
	}
	return ""
}
