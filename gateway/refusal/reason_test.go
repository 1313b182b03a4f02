package refusal_test

import (
	"testing"

	"svc/gateway/audit"
	"svc/gateway/refusal"
)

func TestReasonOfAnAuditLine(t *testing.T) {
	for _, row := range []struct{ action, kind, want string }{
		{audit.ActionAllow, "", ""},
		{audit.ActionDeny, "", "policy_denied"},
		{audit.ActionRateLimitBlocked, "", "rate_limited"},
		{audit.ActionDeny, "guardrail_unreachable", "policy_denied"},
		{audit.ActionDeny, "argument_type", "argument_type"},
		{audit.ActionRateLimitBlocked, "rate_limit_store_unavailable", "rate_limit_store_unavailable"},
		{audit.ActionAllow, "upstream_dns", "upstream_unreachable"},
		{audit.ActionAllow, "stream_ended", "stream_ended"},
		{audit.ActionAllow, "client_closed", ""},
		{audit.ActionDeny, "a kind of a later version", ""},
	} {
		if got := refusal.ReasonOf(row.action, row.kind); got != row.want {
			t.Errorf("%s %q: %q, want %q", row.action, row.kind, got, row.want)
		}
	}
}
